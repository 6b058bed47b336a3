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


cdef class _Texts:
    """Strings for Arrow; room for `octets` bytes, and `most` of them."""
    cdef array.array ends, data, there
    cdef pairs_strings to

    def __cinit__(self, Py_ssize_t most, Py_ssize_t octets, bint may_be_missing):
        self.ends, self.data = array.clone(_ints, most + 1, False), array.clone(_octets, octets + PAIRS_SLACK, False)
        self.there = array.clone(_octets, most // 8 + 1, True) if may_be_missing else None  # not 0, for memset
        self.ends.data.as_ints[0] = 0
        self.to.ends, self.to.data, self.to.size = <int32_t *>self.ends.data.as_ints + 1, self.data.data.as_uchars, 0

    cdef tuple take(self, Py_ssize_t count):
        array.resize(self.ends, count + 1)
        array.resize(self.data, self.to.size)
        return self.ends, self.data


def property_columns(data, begins, ends, list names not None, bint with_maps, /):
    cdef _Strings strings = _Strings(data, begins, ends)
    cdef property_pair pairs[PAIRS_MOST]
    cdef const uint8_t *texts[PAIRS_MOST]
    cdef int32_t sizes[PAIRS_MOST]
    cdef pairs_strings *to[PAIRS_MOST]
    cdef uint8_t *there[PAIRS_MOST]
    cdef Py_ssize_t missing[PAIRS_MOST]
    cdef pairs_strings *map_names = NULL
    cdef pairs_strings *map_values = NULL
    cdef int32_t *first = NULL
    cdef int number, name, wanted = len(names), count = 0
    cdef int32_t total = 0
    cdef int64_t octets = 0, room = 0
    cdef Py_ssize_t row
    cdef _Texts column, names_of_maps, values_of_maps
    cdef array.array firsts
    for row in range(strings.count):
        octets += strings.end[row] - strings.begin[row]
        room += min((strings.end[row] - strings.begin[row] + 1) // 4, <int64_t>PAIRS_MOST)
    if strings.data.len > MOST_OF_DATA or octets > MOST_OF_DATA - PAIRS_SLACK or wanted > PAIRS_MOST:
        return None
    columns = [_Texts(strings.count, octets, True) for _ in range(wanted)]
    for name in range(wanted):
        texts[name] = <const uint8_t *>PyBytes_AS_STRING(<bytes?>names[name])
        sizes[name] = PyBytes_GET_SIZE(names[name])
        column = columns[name]
        to[name], there[name], missing[name] = &column.to, column.there.data.as_uchars, 0
    if with_maps:
        names_of_maps, values_of_maps = _Texts(room, octets, False), _Texts(room, octets, False)
        map_names, map_values = &names_of_maps.to, &values_of_maps.to
        firsts = array.clone(_ints, strings.count + 1, True)
        first = <int32_t *>firsts.data.as_ints
    with nogil:
        for row in range(strings.count):
            count = pairs_take_apart(strings.start, strings.begin[row], strings.end[row], pairs)
            if count == PAIRS_NOT_PLAIN:
                break
            for name in range(wanted):
                number = count - 1
                while number >= 0 and not pairs_same_name(strings.start, &pairs[number], texts[name], sizes[name]):
                    number -= 1
                if number >= 0:
                    pairs_append(to[name], row, strings.start, strings.data.len, pairs[number].value_at, pairs[number].value_end)
                    there[name][row >> 3] |= 1 << (row & 7)
                else:
                    to[name].ends[row] = to[name].size
                    missing[name] += 1
            if first != NULL:
                count = pairs_without_repeated(strings.start, pairs, count)
                for number in range(count):
                    pairs_append(map_names, total + number, strings.start, strings.data.len,
                                 pairs[number].name_at, pairs[number].name_end)
                    pairs_append(map_values, total + number, strings.start, strings.data.len,
                                 pairs[number].value_at, pairs[number].value_end)
                total += count
                first[row + 1] = total
    if count == PAIRS_NOT_PLAIN:
        return None
    found = []
    for name in range(wanted):
        column = columns[name]
        array.resize(column.there, (strings.count + 7) // 8)
        found.append((column.there if missing[name] else None, *column.take(strings.count)))
    return found, (firsts, *names_of_maps.take(total), *values_of_maps.take(total)) if with_maps else None
