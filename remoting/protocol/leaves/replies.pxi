cdef extern from "replies.h" nogil:
    bint reply_of_json(const uint8_t *p, size_t size, const header_plan *plan, header_found *found)


cdef bint reply_found(int form, bytes header, const header_plan *plan, header_found *found, uint8_t *room):
    """``room``: ON_STACK bytes. Longer headers are not as almost all are."""
    found.scratch = room
    if form != 0 or PyBytes_GET_SIZE(header) > ON_STACK:
        return False
    return reply_of_json(<const uint8_t *>PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header), plan, found)


def answer_opaque(int form, bytes header not None, /):
    cdef header_found found
    cdef uint8_t room[ON_STACK]
    return found.opaque if reply_found(form, header, NULL, &found, &room[0]) else None


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
        if not reply_found(form, header, &self.plan.plan, &found, &room[0]) or found.code != 0:
            return None
        try:
            return self.plan.record(&found, self.texts)
        except UnicodeDecodeError:
            return None
