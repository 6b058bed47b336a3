cdef const uint8_t *first_of(bytes units, Py_ssize_t count) except NULL:
    if count < 1 or PyBytes_GET_SIZE(units) // QUEUE_UNIT_SIZE < count:
        raise ValueError(f"{count} units are not in {PyBytes_GET_SIZE(units)} bytes")
    return <const uint8_t *>PyBytes_AS_STRING(units)


def survey_units(bytes units not None, Py_ssize_t most, int64_t most_bytes, frozenset tags, /):
    cdef Py_ssize_t there = PyBytes_GET_SIZE(units) // QUEUE_UNIT_SIZE, count = min(there, most), number
    cdef const uint8_t *first = first_of(units, count)
    cdef const uint8_t *unit = first
    cdef const uint8_t *last = first
    cdef int64_t end, total = 0, code, known = 0
    for number in range(count):
        if number and (total > most_bytes or total + unit_size(unit) > most_bytes):
            count = number
            break
        total += unit_size(unit)
        if tags is not None:
            code = unit_tags_code(unit)
            if number == 0 or code != known:  # mostly it is that of the one before
                if code not in tags:
                    return None
                known = code
        last = unit
        unit += QUEUE_UNIT_SIZE
    end = unit_phy_offset(last)
    if not 0 <= end < QUEUE_MOST_PHY_OFFSET:
        return None
    return count, total, unit_phy_offset(first), end + unit_size(last), unit_phy_offset(unit if there > count else last)


def join_records(data, int64_t begin, bytes units not None, Py_ssize_t count, /):
    cdef Py_buffer view
    cdef const uint8_t *unit = first_of(units, count)
    cdef uint8_t *to
    cdef int64_t total
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        total = units_total(unit, count, begin, view.len)
        if total < 0:
            return None
        records = PyBytes_FromStringAndSize(NULL, total)
        to = <uint8_t *>PyBytes_AS_STRING(records)
        if total < MUCH:
            units_join(unit, count, <const uint8_t *>view.buf, begin, to)
        else:
            with nogil:
                units_join(unit, count, <const uint8_t *>view.buf, begin, to)
        return records
    finally:
        PyBuffer_Release(&view)


def records_fit(records, bytes units not None, Py_ssize_t count, /):
    cdef Py_buffer view
    cdef const uint8_t *unit = first_of(units, count)
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        return bool(units_fit(unit, count, <const uint8_t *>view.buf, view.len))
    finally:
        PyBuffer_Release(&view)
