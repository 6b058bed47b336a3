
cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef extern from "stored_properties.h" nogil:
    enum: BATCH_ITEM_HEAD_SIZE
    enum: ENTRY_HEAD_SIZE
    enum: RECORD_BORN_HOST_V6
    enum: RECORD_STORE_HOST_V6
    enum: RECORD_PREPARED
    ctypedef struct put_bytes:
        const uint8_t *at
        size_t size
    ctypedef struct put_common:
        put_bytes topic_field
        put_bytes born_host
        put_bytes store_host
        int64_t born_timestamp
        int64_t store_timestamp
        int64_t prepared_transaction_offset
        int32_t queue_id
        int32_t sys_flag
        int32_t reconsume_times
    ctypedef struct put_item:
        int32_t flag
        put_bytes body
        put_bytes properties
        size_t end
    enum: PUT_MAX_PROPERTIES
    int32_t put_host_bit(put_bytes host, int32_t v6)
    size_t put_overhead(const put_common *common)
    size_t put_merged_size(put_bytes own, put_bytes shared)
    void put_record_at(uint8_t *to, const put_common *common, int64_t phy_offset, int64_t queue_offset, int32_t flag,
                       put_bytes body, put_bytes properties)
    void put_entry_head_at(uint8_t *to, int64_t index, int64_t term, int64_t pos, size_t size)
    void put_unit_at(uint8_t *to, int64_t phy_offset, size_t size, int64_t tags_code)
    uint8_t *put_merged(uint8_t *to, put_bytes own, put_bytes shared)
    property_value put_tags(put_bytes properties)
    bint put_item_at(const uint8_t *data, size_t length, size_t at, put_item *item)
    size_t put_batch_size(const uint8_t *data, size_t length, put_bytes shared, uint64_t *contents)
    int64_t properties_to_store(put_bytes text)
    uint8_t *put_without_wait(uint8_t *to, put_bytes text, size_t kept)
    uint8_t *put_copy(uint8_t *to, put_bytes data)

cdef enum:
    MOST_ITEMS = 1024  # of a batch in one call, and bytes: a quarter of a millisecond
    MOST_BYTES = 524288


cdef inline put_bytes bytes_of(bytes data) noexcept:
    return put_bytes(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef class LogEnd:
    cdef public object buffer
    cdef public bytes store_host
    cdef public int64_t base, last_store_timestamp
    cdef public Py_ssize_t position, limit, max_body, max_record, head
    cdef public int64_t index, term

    def __cinit__(self):
        self.buffer, self.store_host = b"", bytes(8)


cdef class QueueEnd:
    cdef public object buffer
    cdef public bytes topic_field
    cdef public int64_t max_offset
    cdef public Py_ssize_t position, limit
    cdef public int32_t queue_id

    def __cinit__(self):
        self.buffer = self.topic_field = b""


cdef inline int set_common(put_common *to, LogEnd log, QueueEnd queue, int32_t sys_flag, int64_t born_timestamp,
                           bytes born_host, int64_t store_timestamp, int32_t reconsume_times) except -1:
    cdef int32_t born, store
    to.topic_field, to.born_host, to.store_host = bytes_of(queue.topic_field), bytes_of(born_host), bytes_of(log.store_host)
    to.born_timestamp, to.store_timestamp, to.prepared_transaction_offset = born_timestamp, store_timestamp, 0
    to.queue_id, to.reconsume_times = queue.queue_id, reconsume_times
    born, store = put_host_bit(to.born_host, RECORD_BORN_HOST_V6), put_host_bit(to.store_host, RECORD_STORE_HOST_V6)
    if born < 0 or store < 0:
        raise ValueError("a host takes 8 or 20 bytes")
    to.sys_flag = sys_flag & ~(RECORD_BORN_HOST_V6 | RECORD_STORE_HOST_V6) | born | store
    return 0


cdef inline int need(Py_ssize_t begin, size_t size, const Py_buffer *room) except -1:
    if begin < 0 or begin > room.len or size > <size_t>(room.len - begin):
        raise ValueError("no room for the record or its unit")
    return 0


cdef inline void put_one(uint8_t *to, const put_common *common, int64_t phy_offset, int64_t queue_offset, int32_t flag,
                         put_bytes body, put_bytes properties) noexcept:
    if body.size < MUCH:
        put_record_at(to, common, phy_offset, queue_offset, flag, body, properties)
    else:
        with nogil:
            put_record_at(to, common, phy_offset, queue_offset, flag, body, properties)


cdef inline int64_t tags_code(put_bytes properties) except? -1:
    """As Python has it, where the tags are no ASCII."""
    cdef property_value tags = put_tags(properties)
    cdef uint32_t code = 0
    if java_hash(tags.at, tags.size, &code):
        return <int32_t>code
    from ..message.properties import tags_code_of
    return tags_code_of(PyBytes_FromStringAndSize(<const char *>properties.at, properties.size))


def put_record(
    LogEnd log not None, QueueEnd queue not None, KeyEntries keys, body, bytes properties not None, int32_t flag, int32_t sys_flag,
    int64_t born_timestamp, bytes born_host not None, int64_t store_timestamp, int32_t reconsume_times,
    int64_t prepared_transaction_offset, int64_t tags_code, /
):
    cdef Py_buffer room, unit_room, view
    cdef put_common common
    cdef put_bytes contents, pairs = bytes_of(properties)
    cdef Py_ssize_t size, head = ENTRY_HEAD_SIZE if log.head else 0
    cdef int64_t phy_offset = log.base + log.position + head, queue_offset = 0
    cdef bint numbered = not sys_flag & RECORD_PREPARED
    set_common(&common, log, queue, sys_flag, born_timestamp, born_host, store_timestamp, reconsume_times)
    common.prepared_transaction_offset = prepared_transaction_offset
    PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
    try:
        contents = put_bytes(<const uint8_t *>view.buf, view.len)
        size = put_overhead(&common) + contents.size + pairs.size
        if view.len > log.max_body or pairs.size > PUT_MAX_PROPERTIES or size > log.max_record:
            return None
        if head + size > log.limit - log.position or numbered and queue.limit - queue.position < QUEUE_UNIT_SIZE:
            return None
        if numbered:
            queue_offset = queue.max_offset
            PyObject_GetBuffer(queue.buffer, &unit_room, PyBUF_WRITABLE)
        try:
            if numbered:
                need(queue.position, QUEUE_UNIT_SIZE, &unit_room)
            PyObject_GetBuffer(log.buffer, &room, PyBUF_WRITABLE)
            try:
                need(log.position, head + size, &room)
                put_one(<uint8_t *>room.buf + log.position + head, &common, phy_offset, queue_offset, flag, contents, pairs)
                if head:
                    put_entry_head_at(<uint8_t *>room.buf + log.position, log.index, log.term, phy_offset - head, size)
                    log.index += 1
            finally:
                PyBuffer_Release(&room)
            if numbered:
                put_unit_at(<uint8_t *>unit_room.buf + queue.position, phy_offset, size, tags_code)
                queue.position += QUEUE_UNIT_SIZE
                queue.max_offset += 1
        finally:
            if numbered:
                PyBuffer_Release(&unit_room)
    finally:
        PyBuffer_Release(&view)
    log.position += head + size
    log.last_store_timestamp = store_timestamp
    if keys is not None and common.sys_flag & ROLLED_BACK != ROLLED_BACK:
        keys.note(prefix_of(queue.topic_field), pairs.at, pairs.size, phy_offset, store_timestamp)
    return phy_offset, queue_offset, size


def batch_size(data, bytes shared not None, /):
    cdef Py_buffer view
    cdef put_bytes behind = bytes_of(shared), items
    cdef uint64_t contents = 0
    cdef size_t count
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        items = put_bytes(<const uint8_t *>view.buf, view.len)
        if items.size < MUCH:
            count = put_batch_size(items.at, items.size, behind, &contents)
        else:
            with nogil:
                count = put_batch_size(items.at, items.size, behind, &contents)
    finally:
        PyBuffer_Release(&view)
    return (count, contents) if count else None


def put_batch(
    LogEnd log not None, QueueEnd queue not None, KeyEntries keys, Py_ssize_t position, int64_t queue_offset,
    data, size_t at, bytes shared not None, int32_t sys_flag, int64_t born_timestamp, bytes born_host not None,
    int64_t store_timestamp, int32_t reconsume_times, /
):
    cdef Py_buffer room, view
    cdef put_common common
    cdef put_item item
    cdef put_bytes behind = bytes_of(shared), items, own
    cdef size_t size, count = 0
    cdef Py_ssize_t stop = position + MOST_BYTES, head = ENTRY_HEAD_SIZE if log.head else 0
    cdef int64_t phy_offset = log.base + position + head, index = log.index + queue_offset - queue.max_offset
    cdef uint8_t units[MOST_ITEMS * QUEUE_UNIT_SIZE]
    cdef uint8_t merged[PUT_MAX_PROPERTIES]
    cdef uint32_t prefix
    set_common(&common, log, queue, sys_flag, born_timestamp, born_host, store_timestamp, reconsume_times)
    prefix = prefix_of(queue.topic_field)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        items = put_bytes(<const uint8_t *>view.buf, view.len)
        PyObject_GetBuffer(log.buffer, &room, PyBUF_WRITABLE)
        try:
            while at < items.size and count < MOST_ITEMS and position < stop:
                if not put_item_at(items.at, items.size, at, &item):
                    raise ValueError("not the body of a batch")
                own = put_bytes(&merged[0], put_merged_size(item.properties, behind))
                if own.size > PUT_MAX_PROPERTIES:
                    raise ValueError("the properties are too long")
                put_merged(&merged[0], item.properties, behind)
                size = put_overhead(&common) + item.body.size + own.size
                if head and position + head + <Py_ssize_t>size > log.limit:
                    break
                need(position, head + size, &room)
                put_one(<uint8_t *>room.buf + position + head, &common, phy_offset, queue_offset, item.flag, item.body, own)
                if head:
                    put_entry_head_at(<uint8_t *>room.buf + position, index + <int64_t>count, log.term, phy_offset - head, size)
                put_unit_at(units + count * QUEUE_UNIT_SIZE, phy_offset, size, tags_code(own))
                if keys is not None and common.sys_flag & ROLLED_BACK != ROLLED_BACK:
                    keys.note(prefix, own.at, own.size, phy_offset, store_timestamp)
                at = item.end
                count, queue_offset = count + 1, queue_offset + 1
                position, phy_offset = position + head + <Py_ssize_t>size, phy_offset + head + <int64_t>size
        finally:
            PyBuffer_Release(&room)
    finally:
        PyBuffer_Release(&view)
    return at, position, PyBytes_FromStringAndSize(<const char *>units, count * QUEUE_UNIT_SIZE)


def stored_properties(bytes cluster_pair not None, str text not None, /):
    cdef put_bytes given, cluster = bytes_of(cluster_pair)
    cdef Py_ssize_t length
    cdef int64_t kept
    cdef bytes properties
    cdef uint8_t *start
    cdef uint8_t *to
    given.at = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &length)
    given.size = length
    kept = properties_to_store(given)
    if kept < 0:
        return None
    properties = PyBytes_FromStringAndSize(NULL, kept + (1 if kept else 0) + cluster.size)
    start = to = <uint8_t *>PyBytes_AS_STRING(properties)
    to = put_without_wait(to, given, kept)
    if kept:
        to[0] = 2
        to += 1
    put_copy(to, cluster)
    return properties, tags_code(bytes_of(properties))
