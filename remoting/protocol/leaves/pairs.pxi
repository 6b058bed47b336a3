cdef extern from "pairs.h" nogil:
    enum: PAIRS_MOST, PAIRS_NOT_PLAIN
    ctypedef struct property_pair:
        int32_t name_at
        int32_t name_end
        int32_t value_at
        int32_t value_end
    bint pairs_same_name(const uint8_t *data, const property_pair *one, const uint8_t *name, int32_t size)
    int pairs_take_apart(const uint8_t *data, int32_t begin, int32_t end, property_pair *pairs)
    int pairs_without_repeated(const uint8_t *data, property_pair *pairs, int count)
    enum: PAIRS_SLACK
    ctypedef struct pairs_strings:
        int32_t *ends
        uint8_t *data
        int32_t size
    void pairs_append(pairs_strings *to, size_t number, const uint8_t *data, size_t length, int32_t at, int32_t end)

cdef enum:
    MOST_OF_DATA = 2147483647


cdef class _Strings:
    """Some property strings of a buffer. Positions are checked."""
    cdef Py_buffer data, begins, ends
    cdef int held
    cdef const uint8_t *start
    cdef const int64_t *begin
    cdef const int64_t *end
    cdef Py_ssize_t count

    def __cinit__(self, data, begins, ends):
        cdef Py_ssize_t row
        PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
        self.held = 1
        PyObject_GetBuffer(begins, &self.begins, PyBUF_SIMPLE)
        self.held = 2
        PyObject_GetBuffer(ends, &self.ends, PyBUF_SIMPLE)
        self.held = 3
        self.start = <const uint8_t *>self.data.buf
        self.begin, self.end = <const int64_t *>self.begins.buf, <const int64_t *>self.ends.buf
        self.count = self.begins.len // 8
        if self.ends.len // 8 != self.count:
            raise ValueError("every string has a beginning and an end")
        for row in range(self.count):
            if not 0 <= self.begin[row] <= self.end[row] <= self.data.len:
                raise ValueError(f"string {row} is not in {self.data.len} bytes")

    def __dealloc__(self):
        if self.held > 2:
            PyBuffer_Release(&self.ends)
        if self.held > 1:
            PyBuffer_Release(&self.begins)
        if self.held > 0:
            PyBuffer_Release(&self.data)


def property_edges(data, begins, ends, list names not None, /):
    cdef _Strings strings = _Strings(data, begins, ends)
    cdef property_pair pairs[PAIRS_MOST]
    cdef const uint8_t *texts[PAIRS_MOST]
    cdef int32_t sizes[PAIRS_MOST]
    cdef int32_t *found[2 * PAIRS_MOST]
    cdef int number, name, wanted = len(names), count = 0
    cdef Py_ssize_t row
    if strings.data.len > MOST_OF_DATA or wanted > PAIRS_MOST:
        return None
    columns = [array.clone(_ints, strings.count, True) for _ in range(2 * wanted)]
    for name in range(wanted):
        texts[name] = <const uint8_t *>PyBytes_AS_STRING(<bytes?>names[name])
        sizes[name] = PyBytes_GET_SIZE(names[name])
    for name in range(2 * wanted):
        found[name] = <int32_t *>(<array.array>columns[name]).data.as_ints
    with nogil:
        for row in range(strings.count):
            count = pairs_take_apart(strings.start, strings.begin[row], strings.end[row], pairs)
            if count == PAIRS_NOT_PLAIN:
                break
            for number in range(count):
                for name in range(wanted):
                    if pairs_same_name(strings.start, &pairs[number], texts[name], sizes[name]):
                        found[2 * name][row], found[2 * name + 1][row] = pairs[number].value_at, pairs[number].value_end
                        break
    return None if count == PAIRS_NOT_PLAIN else columns


def property_maps(data, begins, ends, /):
    cdef _Strings strings = _Strings(data, begins, ends)
    cdef property_pair pairs[PAIRS_MOST]
    cdef pairs_strings names, values
    cdef array.array firsts, name_ends, name_data, value_ends, value_data
    cdef int32_t *first
    cdef int number, count = 0
    cdef int64_t octets = 0, room = 0
    cdef int32_t total = 0
    cdef Py_ssize_t row
    for row in range(strings.count):
        octets += strings.end[row] - strings.begin[row]
        room += min((strings.end[row] - strings.begin[row] + 1) // 4, <int64_t>PAIRS_MOST)
    if strings.data.len > MOST_OF_DATA or octets > MOST_OF_DATA - PAIRS_SLACK:
        return None
    firsts = array.clone(_ints, strings.count + 1, True)
    name_ends, value_ends = array.clone(_ints, room + 1, False), array.clone(_ints, room + 1, False)
    name_data = array.clone(_octets, octets + PAIRS_SLACK, False)
    value_data = array.clone(_octets, octets + PAIRS_SLACK, False)
    first = <int32_t *>firsts.data.as_ints
    names.ends, names.data, names.size = <int32_t *>name_ends.data.as_ints + 1, name_data.data.as_uchars, 0
    values.ends, values.data, values.size = <int32_t *>value_ends.data.as_ints + 1, value_data.data.as_uchars, 0
    name_ends.data.as_ints[0], value_ends.data.as_ints[0] = 0, 0
    with nogil:
        for row in range(strings.count):
            count = pairs_take_apart(strings.start, strings.begin[row], strings.end[row], pairs)
            if count == PAIRS_NOT_PLAIN:
                break
            count = pairs_without_repeated(strings.start, pairs, count)
            for number in range(count):
                pairs_append(&names, total + number, strings.start, strings.data.len, pairs[number].name_at, pairs[number].name_end)
                pairs_append(&values, total + number, strings.start, strings.data.len, pairs[number].value_at, pairs[number].value_end)
            total += count
            first[row + 1] = total
    if count == PAIRS_NOT_PLAIN:
        return None
    array.resize(name_ends, total + 1)
    array.resize(value_ends, total + 1)
    array.resize(name_data, names.size)
    array.resize(value_data, values.size)
    return firsts, name_ends, name_data, value_ends, value_data
