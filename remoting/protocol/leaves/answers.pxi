from .pure_answers import DEEPEST
from .pure_frames import MAX_FRAME_BYTES

cdef extern from "answers.h" nogil:
    enum: DECIMAL_BYTES, HEX_BYTES, RAW_BYTES, ESCAPE_BYTES
    uint8_t *write_decimal(uint8_t *out, int64_t number)
    uint8_t *write_hex(uint8_t *out, int64_t number)
    uint8_t *write_raw(uint8_t *out, uint32_t number)
    uint8_t *write_json(uint8_t *out, const uint8_t *text, size_t size)

cdef extern from "Python.h":
    const uint8_t *utf8_of "PyUnicode_AsUTF8AndSize"(str text, Py_ssize_t *size) except NULL

cdef enum:
    MOST_GROUPS = 4  # in each other, as DEEPEST
    ON_STACK_TOO = 1024  # bytes of a frame that is made without asking for memory

assert MOST_GROUPS == DEEPEST
cdef Py_ssize_t max_frame_bytes = MAX_FRAME_BYTES

cdef struct template_piece:
    char kind  # as in ``pure_answers``; 0: a literal
    Py_ssize_t size  # of the literal; the number of a value
    const uint8_t *literal


cdef class FrameTemplate:
    cdef template_piece *pieces
    cdef Py_ssize_t count
    cdef Py_ssize_t room  # that a frame takes at most, besides the bytes that are put in
    cdef uint32_t form
    cdef list literals  # whose bytes stand in the pieces
    cdef list texts, json  # the numbers of the values that are bytes, and texts

    def __cinit__(self, uint32_t form, pieces, /):
        cdef template_piece *piece
        cdef int depth = 0
        given = list(pieces)
        self.form, self.literals, self.texts, self.json, self.room = form, [], [], [], prefix_bytes
        self.pieces = <template_piece *>PyMem_Malloc(max(1, len(given)) * sizeof(template_piece))
        if self.pieces == NULL:
            raise MemoryError
        for each in given:
            piece = &self.pieces[self.count]
            if type(each) is bytes:
                self.literals.append(each)
                piece.kind, piece.literal, piece.size = 0, <const uint8_t *>PyBytes_AS_STRING(each), len(each)
                self.room += piece.size
            elif type(each) is tuple and each[0] in ("d", "X", "i", "b", "s"):
                piece.kind, piece.size = ord(each[0]), each[1]
                self.room += DECIMAL_BYTES  # the longest of them
                if piece.kind == c"b":
                    self.texts.append(piece.size)
                elif piece.kind == c"s":
                    self.json.append(piece.size)
            elif each == "(" and depth < MOST_GROUPS or each == ")" and depth:
                piece.kind = ord(each)
                depth += 1 if each == "(" else -1
                self.room += 4
            else:
                raise ValueError(f"{each!r} is no piece of a template here")
            self.count += 1
        if depth:
            raise ValueError("a group without its end")

    def __dealloc__(self):
        PyMem_Free(self.pieces)

    def fill(self, tuple values not None, Py_ssize_t body_size=0, /):
        return self.made(values, prefix_bytes, body_size)

    def header(self, tuple values not None, /):
        return self.made(values, 0, 0)

    cdef bytes made(self, tuple values, Py_ssize_t prefix, Py_ssize_t body_size):
        cdef uint8_t stack[ON_STACK_TOO]
        cdef Py_ssize_t size, needed = self.room
        cdef uint8_t *room = &stack[0]
        for number in self.texts:
            needed += len(<bytes?>values[number])
        for number in self.json:
            utf8_of(<str?>values[number], &size)
            needed += 2 + ESCAPE_BYTES * size
        if needed > ON_STACK_TOO:
            room = <uint8_t *>PyMem_Malloc(needed)
            if room == NULL:
                raise MemoryError
        try:
            size = self.write(room + prefix, values) - room
            if prefix:
                if size > max_frame_bytes - body_size:
                    raise ValueError(f"a frame of {size + body_size} bytes is over the limit of {max_frame_bytes}")
                write_raw(room, <uint32_t>(size - 4 + body_size))
                write_raw(room + 4, self.form << 24 | <uint32_t>(size - prefix_bytes))
            return copied(room, size)
        finally:
            if room != &stack[0]:
                PyMem_Free(room)

    cdef uint8_t *write(self, uint8_t *out, tuple values) except NULL:
        """The header; returns its end."""
        cdef uint8_t *groups[MOST_GROUPS]
        cdef const uint8_t *text
        cdef int depth = 0
        cdef Py_ssize_t at, size
        cdef const template_piece *piece
        for at in range(self.count):
            piece = &self.pieces[at]
            if piece.kind == 0:
                memcpy(out, piece.literal, piece.size)
                out += piece.size
            elif piece.kind == c"d":
                out = write_decimal(out, values[piece.size])
            elif piece.kind == c"X":
                out = write_hex(out, values[piece.size])
            elif piece.kind == c"i":
                out = write_raw(out, <uint32_t><int32_t>values[piece.size])
            elif piece.kind == c"b":
                text, size = <const uint8_t *>PyBytes_AS_STRING(values[piece.size]), PyBytes_GET_SIZE(values[piece.size])
                if size < MUCH:
                    memcpy(out, text, size)
                else:
                    with nogil:
                        memcpy(out, text, size)
                out += size
            elif piece.kind == c"s":
                text = utf8_of(values[piece.size], &size)
                out[0] = c'"'
                out = write_json(out + 1, text, size)
                out[0] = c'"'
                out += 1
            elif piece.kind == c"(":
                groups[depth] = out
                depth += 1
                out += 4
            else:
                depth -= 1
                write_raw(groups[depth], <uint32_t>(out - groups[depth] - 4))
        return out
