cdef extern from "replies.h" nogil:
    bint reply_of_json(const uint8_t *p, size_t size, const header_plan *plan, header_found *found)


cdef class Replies:
    cdef HeaderPlan plan
    cdef list texts

    def __cinit__(self, response_type, /):
        self.plan, self.texts = HeaderPlan(response_type), [""] * KNOWN
        if not self.plan.fill():
            raise TypeError(f"{response_type.__name__} is not as all headers are")

    def read(self, int form, bytes header not None, /):
        cdef header_found found
        cdef uint8_t room[ON_STACK]
        cdef uint8_t *more = NULL
        cdef Py_ssize_t size = PyBytes_GET_SIZE(header)
        if form != 0:
            return None
        found.scratch = &room[0]
        if size > ON_STACK:  # the answer to a batch has the ids of all its messages
            found.scratch = more = <uint8_t *>PyMem_Malloc(size)
            if more == NULL:
                raise MemoryError
        try:
            if not reply_of_json(<const uint8_t *>PyBytes_AS_STRING(header), size, &self.plan.plan, &found):
                return None
            return found.opaque, self.plan.record(&found, self.texts)
        except UnicodeDecodeError:
            return None
        finally:
            PyMem_Free(more)
