cdef extern from "entries.h" nogil:
    enum: INDEX_UNIT_SIZE
    ctypedef struct entry_fields:
        int64_t index
        int64_t term
        int64_t pos
        int32_t magic
        int32_t size
        int32_t channel
        int32_t chain_crc
        int32_t body_crc
        uint32_t body_size
    void entry_write(uint8_t *head, const entry_fields *fields)
    size_t entries_count(const uint8_t *data, size_t *at, size_t end, int64_t index, int64_t place)
    void entries_units(const uint8_t *head, size_t count, uint8_t *unit)
    void entries_checksums(const uint8_t *head, size_t count, uint8_t *unit)
    size_t entries_json_size(const uint8_t *head, size_t count)
    uint8_t *entries_write_json(const uint8_t *head, size_t count, uint8_t *out)


def entry_units(data, Py_ssize_t at, Py_ssize_t end, int64_t index, int64_t place, /):
    cdef Py_buffer view
    cdef const uint8_t *start
    cdef size_t begin = at, stop = at, count
    cdef bytes units
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= at <= end <= view.len:
            raise ValueError("the entries do not lie in the data")
        start = <const uint8_t *>view.buf
        count = entries_count(start, &stop, end, index, place)
        units = PyBytes_FromStringAndSize(NULL, count * INDEX_UNIT_SIZE)
        entries_units(start + begin, count, <uint8_t *>PyBytes_AS_STRING(units))
        return units, stop
    finally:
        PyBuffer_Release(&view)


def entries_json(data, Py_ssize_t at, Py_ssize_t end, int64_t index, int64_t place, /):
    cdef Py_buffer view
    cdef const uint8_t *start
    cdef size_t begin = at, stop = at, count
    cdef bytes text
    cdef uint8_t *behind
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= at <= end <= view.len:
            raise ValueError("the entries do not lie in the data")
        start = <const uint8_t *>view.buf
        count = entries_count(start, &stop, end, index, place)
        text = PyBytes_FromStringAndSize(NULL, entries_json_size(start + begin, count))
        behind = entries_write_json(start + begin, count, <uint8_t *>PyBytes_AS_STRING(text))
        return text[:behind - <uint8_t *>PyBytes_AS_STRING(text)]
    finally:
        PyBuffer_Release(&view)


def entry_checksums(data, Py_ssize_t at, Py_ssize_t end, int64_t index, int64_t place, /):
    cdef Py_buffer view
    cdef const uint8_t *start
    cdef size_t begin = at, stop = at, count
    cdef bytes units
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= at <= end <= view.len:
            raise ValueError("the entries do not lie in the data")
        start = <const uint8_t *>view.buf
        count = entries_count(start, &stop, end, index, place)
        units = PyBytes_FromStringAndSize(NULL, 8 * count)
        entries_checksums(start + begin, count, <uint8_t *>PyBytes_AS_STRING(units))
        return units
    finally:
        PyBuffer_Release(&view)


def join_entries(entries, Py_ssize_t most, /):
    cdef entry_fields fields
    cdef uint8_t *to
    cdef bytes body, joined
    cdef list bodies = [], taken = []
    cdef Py_ssize_t total = 0
    for entry in entries:
        most -= <int32_t>entry.size
        if most < 0:
            break
        body = entry.body
        if body is None:
            raise TypeError("the record of an entry is bytes")
        taken.append(entry)
        bodies.append(body)
        total += ENTRY_HEAD_SIZE + PyBytes_GET_SIZE(body)
    joined = PyBytes_FromStringAndSize(NULL, total)
    to = <uint8_t *>PyBytes_AS_STRING(joined)
    for entry, body in zip(taken, bodies):
        fields.index, fields.term, fields.pos = entry.index, entry.term, entry.pos
        fields.magic, fields.size, fields.channel = entry.magic, entry.size, entry.channel
        fields.chain_crc, fields.body_crc = entry.chain_crc, entry.body_crc
        fields.body_size = <uint32_t>PyBytes_GET_SIZE(body)
        entry_write(to, &fields)
        memcpy(to + ENTRY_HEAD_SIZE, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))
        to += ENTRY_HEAD_SIZE + PyBytes_GET_SIZE(body)
    return joined, len(taken)
