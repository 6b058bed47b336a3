cdef extern from "crc32.h" nogil:
    void crc32_make_tables()
    uint32_t crc32_of(uint32_t crc, const uint8_t *start, size_t size)

crc32_make_tables()

def crc32(data, uint32_t value=0, /):
    cdef Py_buffer view
    if type(data) is bytes and PyBytes_GET_SIZE(data) < MUCH:
        return crc32_of(value, <const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len < MUCH:
            return crc32_of(value, <const uint8_t *>view.buf, view.len)
        with nogil:
            value = crc32_of(value, <const uint8_t *>view.buf, view.len)
        return value
    finally:
        PyBuffer_Release(&view)
