cdef extern from "units.h" nogil:
    enum: QUEUE_UNIT_SIZE, QUEUE_UNIT_TAGS_CODE_AT, QUEUE_FILLER_SIZE, QUEUE_MOST_SIZE
    int64_t QUEUE_MOST_PHY_OFFSET
    int64_t unit_phy_offset(const uint8_t *unit)
    int32_t unit_size(const uint8_t *unit)
    int64_t unit_tags_code(const uint8_t *unit)
    int64_t units_total(const uint8_t *unit, size_t count, int64_t begin, size_t length)
    void units_join(const uint8_t *unit, size_t count, const uint8_t *data, int64_t begin, uint8_t *to)
    bint units_fit(const uint8_t *unit, size_t count, const uint8_t *records, size_t length)


def believed_units(bytes data not None, int64_t least_size, int64_t end, uint64_t file_size, /):
    cdef const uint8_t *unit = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t count = 0, units = PyBytes_GET_SIZE(data) // QUEUE_UNIT_SIZE
    cdef uint64_t position, file = 0, size_sum = 0, squares = 0, file_end = 0
    cdef int64_t phy_offset, size
    runs = []
    while count < units:
        phy_offset, size = unit_phy_offset(unit), unit_size(unit)
        if phy_offset < end or phy_offset >= QUEUE_MOST_PHY_OFFSET:
            break
        if (size < least_size or size > QUEUE_MOST_SIZE) and size != QUEUE_FILLER_SIZE:
            break
        count += 1
        unit += QUEUE_UNIT_SIZE
        end = phy_offset
        if size == QUEUE_FILLER_SIZE:
            continue
        end += size
        if not file_size:
            continue
        if size_sum and <uint64_t>phy_offset // file_size != file:
            runs.append((file, size_sum, squares, file_end))
            size_sum = squares = 0
        file, position = <uint64_t>phy_offset // file_size, <uint64_t>phy_offset % file_size
        size_sum += size
        squares += <uint64_t>size * (2 * position + size)
        file_end = position + size
    if size_sum:
        runs.append((file, size_sum, squares, file_end))
    return count, end, runs


def message_ids(bytes host not None, bytes units not None, /):
    cdef Py_ssize_t at, size = PyBytes_GET_SIZE(host), count = PyBytes_GET_SIZE(units) // QUEUE_UNIT_SIZE
    cdef const uint8_t *unit = <const uint8_t *>PyBytes_AS_STRING(units)
    cdef uint8_t *to
    if not count:
        return b""
    ids = PyBytes_FromStringAndSize(NULL, count * (size + HEX_BYTES + 1) - 1)
    to = <uint8_t *>PyBytes_AS_STRING(ids)
    for at in range(count):
        if at:
            to[0] = 44
            to += 1
        memcpy(to, PyBytes_AS_STRING(host), size)
        to = write_hex(to + size, unit_phy_offset(unit + at * QUEUE_UNIT_SIZE))
    return ids
