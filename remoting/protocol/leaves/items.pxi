cdef extern from "items.h" nogil:
    enum: ITEMS_OVERHEAD, ITEMS_MOST_PIECES
    ctypedef struct items_piece:
        const uint8_t *prefix
        int64_t prefix_size
        const int32_t *ends
        const uint8_t *data
        int64_t number
    int64_t items_first_outside(const int32_t *ends, int64_t count, int64_t length)
    int64_t items_properties_size(const items_piece *pieces, int count, int64_t row)
    uint8_t *items_put(const items_piece *body, int32_t flag, const items_piece *pieces, int count, int64_t row, uint8_t *to)


cdef class _Column:
    """Texts, whose positions are checked, behind a prefix."""
    cdef Py_buffer ends, data
    cdef bytes prefix
    cdef int held
    cdef Py_ssize_t count

    def __cinit__(self, bytes prefix not None, ends, data):
        cdef int64_t outside
        self.prefix = prefix
        PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
        self.held = 1
        PyObject_GetBuffer(ends, &self.ends, PyBUF_SIMPLE)
        self.held = 2
        self.count = self.ends.len // 4 - 1
        if self.count < 0:
            raise ValueError("where the first text begins is not told")
        with nogil:
            outside = items_first_outside(<const int32_t *>self.ends.buf, self.count, self.data.len)
        if outside >= 0:
            raise ValueError(f"text {outside} is not in {self.data.len} bytes")

    def __dealloc__(self):
        if self.held > 1:
            PyBuffer_Release(&self.ends)
        if self.held > 0:
            PyBuffer_Release(&self.data)

    cdef items_piece piece(self):
        return items_piece(
            <const uint8_t *>PyBytes_AS_STRING(self.prefix), PyBytes_GET_SIZE(self.prefix),
            <const int32_t *>self.ends.buf, <const uint8_t *>self.data.buf, -1)


cdef Py_ssize_t _piece_of(object given, Py_ssize_t count, list held, items_piece *piece) except -1:
    """How many rows it has. What must not go meanwhile is held."""
    cdef _Column column
    if isinstance(given, range):
        if given.start < 0 or given.step != 1:
            raise ValueError(f"{given} does not count up from 0 or more")
        piece[0] = items_piece(NULL, 0, NULL, NULL, given.start)
        return len(given)
    if isinstance(given, bytes):
        held.append(given)
        piece[0] = items_piece(<const uint8_t *>PyBytes_AS_STRING(given), PyBytes_GET_SIZE(given), NULL, NULL, -1)
        return count
    column = _Column(*given)
    held.append(column)
    piece[0] = column.piece()
    return column.count


def join_items(body_ends, bodies, flags, pieces, /):
    cdef _Column body = _Column(b"", body_ends, bodies)
    cdef items_piece body_piece = body.piece()
    cdef items_piece each[ITEMS_MOST_PIECES]
    cdef Py_ssize_t row, count = body.count
    cdef int number, wanted = len(pieces)
    cdef const int32_t *flag = NULL
    cdef int64_t size, longest = 0, total = 0
    cdef uint8_t *to
    cdef int32_t *end
    cdef array.array ends, data
    cdef const uint8_t[:] flag_bytes
    cdef bint same = True
    held = []
    if flags is not None:
        flag_bytes = memoryview(flags).cast("B")
        same = flag_bytes.shape[0] == 4 * count
        flag = <const int32_t *>&flag_bytes[0] if same and count else NULL
    if wanted > ITEMS_MOST_PIECES:
        raise ValueError(f"{wanted} pieces are more than {ITEMS_MOST_PIECES}")
    for number in range(wanted):
        same &= _piece_of(pieces[number], count, held, &each[number]) == count
    if not same:
        raise ValueError(f"not all columns have {count} rows")
    with nogil:
        for row in range(count):
            size = items_properties_size(each, wanted, row)
            longest = max(longest, size)
            total += size + ITEMS_OVERHEAD + body_piece.ends[row + 1] - body_piece.ends[row]
    if total > MOST_OF_DATA:
        raise ValueError("these items take more than 2 GiB")
    ends, data = array.clone(_ints, count + 1, False), array.clone(_octets, total, False)
    end, to = <int32_t *>ends.data.as_ints, data.data.as_uchars
    with nogil:
        end[0] = 0
        for row in range(count):
            to = items_put(&body_piece, flag[row] if flag != NULL else 0, each, wanted, row, to)
            end[row + 1] = <int32_t>(to - data.data.as_uchars)
    return ends, data, longest
