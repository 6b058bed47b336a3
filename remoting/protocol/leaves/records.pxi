from libc.stdlib cimport free, malloc

cdef extern from "Python.h":
    object decoded "PyUnicode_DecodeUTF8"(const char *text, Py_ssize_t size, const char *errors)

cdef extern from "records.h" nogil:
    enum: RECORD_MIN_SIZE
    size_t RECORD_NO_MEMORY
    ctypedef struct record_columns:
        int64_t *at
        int64_t *size
        int64_t *phy_offset
        int64_t *queue_id
        int64_t *queue_offset
        int64_t *sys_flag
        int64_t *store_timestamp
        int64_t *body_at
        int64_t *body_size
        int64_t *topic
        int64_t *properties_at
    ctypedef struct record_topics:
        size_t *at
        size_t *size
        size_t count
    ctypedef struct record_rules:
        int64_t place
        bint has_place
        bint check_crc
        bint any_version
        bint entries
        int64_t next_index
        int64_t least_term
    ctypedef struct record_parts:
        size_t end
        size_t body_at
        size_t body_size
        size_t topic_at
        size_t topic_size
        size_t properties_at
        int32_t sys_flag
    enum: RECORD_QUEUE_OFFSET_AT
    bint record_take_apart(const uint8_t *data, size_t length, size_t begin, size_t limit, const record_rules *rules,
                           record_parts *parts)
    void record_topics_free(record_topics *topics)
    size_t records_scan(const uint8_t *data, size_t length, size_t *at, size_t limit, record_rules *rules,
                        record_topics *topics, const record_columns *to, size_t count, size_t room)
    ctypedef struct record_queue:
        int64_t topic
        int64_t queue_id
        size_t count
        size_t begin
        bint without_gap
    ctypedef struct record_queues:
        record_queue *queues
        size_t count
        uint64_t key
    void record_queues_free(record_queues *table)
    uint32_t RECORD_NO_QUEUE
    size_t records_by_queue(size_t count, const int64_t *topics, const int64_t *queue_ids, const int64_t *queue_offsets,
                            const int64_t *sys_flags, record_queues *table, uint32_t *queue_of)
    bint record_unit(uint8_t *to, int64_t phy_offset, int64_t size, const uint8_t *properties, size_t properties_size)

cdef enum:
    COLUMNS = 11
    LONG_SCAN = (1 << 20) + 4096  # a MiB of the shortest records takes half a millisecond; of more others may run meanwhile


cdef uint64_t HASH_KEY = <uint64_t>hash("what nobody can foresee")


cdef inline int64_t *numbers_of(list columns, int number) noexcept:
    return <int64_t *>(<array.array>columns[number]).data.as_longlongs


cdef list without_twins(list names, array.array topics):
    """Different bytes that are no UTF-8 may become the same text."""
    cdef dict numbers = {}
    cdef Py_ssize_t row
    cdef list number_of = [numbers.setdefault(name, len(numbers)) for name in names]
    if len(numbers) == len(names):
        return names
    for row in range(len(topics)):
        topics.data.as_longlongs[row] = number_of[topics.data.as_longlongs[row]]
    return list(numbers)


def scan_columns(data, size_t at, place, size_t left, bint check_crc, bint any_version, tuple order, /):
    cdef record_rules rules
    rules.has_place, rules.check_crc, rules.any_version = place is not None, check_crc, any_version
    rules.place = place if place is not None else 0
    rules.entries, rules.next_index, rules.least_term = order is not None, -1, -1
    if order is not None:
        rules.next_index, rules.least_term = order
    return columns_of(data, [at], [at + min(left, <size_t>1 << 62)], True, &rules)


def stretch_columns(data, list begins not None, list ends not None, bint check_crc, /):
    cdef record_rules rules
    rules.has_place, rules.check_crc, rules.any_version, rules.place, rules.entries = False, check_crc, True, 0, False
    if len(begins) != len(ends):
        raise ValueError("every stretch has a beginning and an end")
    return columns_of(data, begins, ends, False, &rules)


cdef tuple columns_of(data, list begins, list limits, bint shown_behind, record_rules *rules):
    """The records of stretches, up to the first one that is not made of records. `shown_behind`: what is there behind a limit
    is looked at as well, for lost sectors."""
    cdef Py_buffer view
    cdef record_columns to
    cdef record_topics topics
    cdef const uint8_t *start
    cdef size_t at, length, room, limit, number, rest = 0, count = 0
    cdef list columns, names = []
    memset(&topics, 0, sizeof(topics))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        start = <const uint8_t *>view.buf
        for at, limit in zip(begins, limits):
            rest += max(min(limit, <size_t>view.len), at) - at
        room = rest // 256 + 8  # most records are longer
        columns = [array.clone(_longs, room, False) for _ in range(COLUMNS)]
        for at, limit in zip(begins, limits):
            length = <size_t>view.len if shown_behind else min(limit, <size_t>view.len)
            at = min(at, length)
            rest -= max(min(limit, <size_t>view.len), at) - at
            while True:
                to.at, to.size, to.phy_offset = numbers_of(columns, 0), numbers_of(columns, 1), numbers_of(columns, 2)
                to.queue_id, to.queue_offset = numbers_of(columns, 3), numbers_of(columns, 4)
                to.sys_flag, to.store_timestamp = numbers_of(columns, 5), numbers_of(columns, 6)
                to.body_at, to.body_size = numbers_of(columns, 7), numbers_of(columns, 8)
                to.topic, to.properties_at = numbers_of(columns, 9), numbers_of(columns, 10)
                if length - at > LONG_SCAN:
                    with nogil:
                        count = records_scan(start, length, &at, limit, rules, &topics, &to, count, room)
                else:
                    count = records_scan(start, length, &at, limit, rules, &topics, &to, count, room)
                if count == RECORD_NO_MEMORY:
                    raise MemoryError
                if count < room:
                    break
                room = count + (length - at + rest) // RECORD_MIN_SIZE + 1
                for column in columns:
                    array.resize(column, room)
            if at != limit:
                break
        for column in columns:
            array.resize(column, count)
        for number in range(topics.count):
            names.append(decoded(<const char *>start + topics.at[number], topics.size[number], "replace"))
        return without_twins(names, columns[9]), columns
    finally:
        record_topics_free(&topics)
        PyBuffer_Release(&view)


def read_records(bytes data not None, size_t at, size_t until, make, broker_name, /):
    cdef const char *start = PyBytes_AS_STRING(data)
    cdef size_t length = PyBytes_GET_SIZE(data), topic_at = 0, topic_size = <size_t>-1
    cdef record_rules rules
    cdef record_parts parts
    cdef list made = []
    cdef object topic = None
    rules.has_place, rules.check_crc, rules.any_version, rules.place, rules.entries = False, True, False, 0, False
    while at < until and at < length:
        if not record_take_apart(<const uint8_t *>start, length, at, length, &rules, &parts):
            break
        if parts.topic_size != topic_size or memcmp(start + parts.topic_at, start + topic_at, topic_size):
            topic_at, topic_size = parts.topic_at, parts.topic_size
            topic = decoded(start + topic_at, topic_size, "replace")
        made.append(make(
            PyBytes_FromStringAndSize(start + at, parts.body_at - at),
            PyBytes_FromStringAndSize(start + parts.body_at, parts.body_size),
            topic,
            PyBytes_FromStringAndSize(start + parts.properties_at, parts.end - parts.properties_at),
            broker_name,
            bytes_read_i64(<const uint8_t *>start + at + RECORD_QUEUE_OFFSET_AT),
            parts.sys_flag,
        ))
        at = parts.end
    return made, at


def queue_runs(records, /):
    cdef Py_buffer view
    cdef record_queues table
    cdef record_queue *queue
    cdef uint32_t *queue_of = NULL
    cdef Py_ssize_t count = len(records.at), row, place, stop
    cdef const int64_t *at = _numbers(records.at, count)
    cdef const int64_t *sizes = _numbers(records.sizes, count)
    cdef const int64_t *phy_offsets = _numbers(records.phy_offsets, count)
    cdef const int64_t *properties_at = _numbers(records.properties_at, count)
    cdef array.array order
    cdef bytes units
    cdef uint8_t *start
    cdef uint8_t *to
    cdef size_t in_queues
    cdef list runs = [], odd = []
    memset(&table, 0, sizeof(table))
    table.key = HASH_KEY
    PyObject_GetBuffer(records.data, &view, PyBUF_SIMPLE)
    try:
        start = <uint8_t *>view.buf
        queue_of = <uint32_t *>malloc((count + 1) * sizeof(uint32_t))
        if queue_of == NULL:
            raise MemoryError
        in_queues = records_by_queue(
            count, _numbers(records.topics, count), _numbers(records.queue_ids, count),
            _numbers(records.queue_offsets, count), _numbers(records.sys_flags, count), &table, queue_of,
        )
        if in_queues == RECORD_NO_MEMORY:
            raise MemoryError
        order = array.clone(_longs, in_queues, False)
        units = PyBytes_FromStringAndSize(NULL, in_queues * QUEUE_UNIT_SIZE)
        to = <uint8_t *>PyBytes_AS_STRING(units)
        for row in range(<Py_ssize_t>table.count):
            queue = table.queues + row
            runs.append((queue.topic, queue.queue_id, queue.begin, queue.begin + queue.count, queue.without_gap))
        for row in range(count):
            if queue_of[row] == RECORD_NO_QUEUE:
                continue
            place = table.queues[queue_of[row]].begin
            table.queues[queue_of[row]].begin += 1
            order.data.as_longlongs[place] = row
            stop = at[row] + sizes[row]
            if not 0 <= properties_at[row] <= stop <= view.len:
                raise ValueError("the properties do not lie in the data")
            if not record_unit(to + place * QUEUE_UNIT_SIZE, phy_offsets[row], sizes[row], start + properties_at[row],
                               stop - properties_at[row]):
                odd.append((row, place))
        if odd:
            put_codes(records, odd, to)
        return runs, order, units
    finally:
        free(queue_of)
        record_queues_free(&table)
        PyBuffer_Release(&view)


cdef put_codes(records, list odd, uint8_t *units):
    """The tags codes of tags that are no ASCII."""
    from ..message.properties import tags_code_of
    cdef Py_ssize_t row, place
    cdef uint8_t *unit
    for row, place in odd:
        unit = units + place * QUEUE_UNIT_SIZE
        bytes_write_i64(unit + QUEUE_UNIT_TAGS_CODE_AT, tags_code_of(records.properties(row)))
