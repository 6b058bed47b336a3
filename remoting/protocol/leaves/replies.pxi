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
        cdef Py_ssize_t size = PyBytes_GET_SIZE(header)
        if form != 0 or size > ON_STACK:
            return None
        found.scratch = &room[0]
        if not reply_of_json(<const uint8_t *>PyBytes_AS_STRING(header), size, &self.plan.plan, &found):
            return None
        try:
            return found.opaque, self.plan.record(&found, self.texts)
        except UnicodeDecodeError:
            return None
