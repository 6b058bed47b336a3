from cpython.bytes cimport PyBytes_FromStringAndSize
from .pure_frames import LONG_HEADER, MOST_FRAMES, PREFIX_BYTES, SMALL_BODY

cdef Py_ssize_t prefix_bytes = PREFIX_BYTES, small_body = SMALL_BODY, most_frames = MOST_FRAMES
cdef int long_header_mark = LONG_HEADER


cdef bytes copied(const uint8_t *start, Py_ssize_t size):
    """Whoever calls has to keep alive what is copied."""
    cdef uint8_t *to
    if size < MUCH:
        return PyBytes_FromStringAndSize(<const char *>start, size)
    made = PyBytes_FromStringAndSize(NULL, size)
    to = <uint8_t *>PyBytes_AS_STRING(made)
    with nogil:
        memcpy(to, start, size)
    return made


def split_frames(bytes data not None, Py_ssize_t start, Py_ssize_t max_total, Py_ssize_t long_header, /):
    cdef const uint8_t *bytes_of = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t position = start, end = PyBytes_GET_SIZE(data), total, header, body, count = 0
    cdef int form
    cdef list frames = []
    if start < 0:
        raise ValueError(start)
    while end - position >= prefix_bytes:
        total = bytes_read_u32(bytes_of + position)
        header = bytes_read_u32(bytes_of + position + 4) & 0xFFFFFF
        if total > max_total or header + 4 > total:
            return frames, position, -1
        if 4 + total > end - position or count == most_frames:
            return frames, position, 4 + total
        form = bytes_of[position + 4]
        if header > long_header:
            form |= long_header_mark
        position += prefix_bytes
        body = total - 4 - header
        frames.append((
            form,
            copied(bytes_of + position, header),
            copied(bytes_of + position + header, body) if body <= small_body
            else memoryview(data)[position + header:position + header + body],
        ))
        position += header + body
        count += 1
    if end - position >= 4:
        total = bytes_read_u32(bytes_of + position)
        if total < 4 or total > max_total:
            return frames, position, -1
    return frames, position, prefix_bytes if position < end else 0
