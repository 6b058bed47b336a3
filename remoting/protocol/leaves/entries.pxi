cdef extern from "entries.h" nogil:
    enum: INDEX_UNIT_SIZE
    size_t entries_count(const uint8_t *data, size_t *at, size_t end, int64_t index, int64_t place)
    void entries_units(const uint8_t *head, size_t count, uint8_t *unit)


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
