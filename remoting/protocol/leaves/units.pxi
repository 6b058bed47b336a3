from libc.stdint cimport uint64_t

cdef inline uint64_t _big_endian(const uint8_t *p, int size) noexcept nogil:
    cdef uint64_t number = 0
    cdef int at
    for at in range(size):
        number = number << 8 | p[at]
    return number


def believed_units(bytes data not None, int64_t least_size, int64_t end, uint64_t file_size, /):
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t count = 0, units = PyBytes_GET_SIZE(data) // 20
    cdef uint64_t position, file = 0, size_sum = 0, squares = 0, file_end = 0
    cdef int64_t phy_offset, size
    runs = []
    while count < units:
        phy_offset, size = <int64_t>_big_endian(p, 8), <int32_t>_big_endian(p + 8, 4)
        if phy_offset < end or phy_offset >= <int64_t>1 << 50 or (size < least_size or size > 1 << 30) and size != 0x7FFFFFFF:
            break
        count += 1
        p += 20
        end = phy_offset
        if size == 0x7FFFFFFF:
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
