from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject

from types import MemberDescriptorType

from msgspec import Struct

from ..wire import fields_of, int_bounds

cdef extern from "headers.h" nogil:
    enum: HEADER_FIELDS, HEADER_CODES, HEADER_TEXT, HEADER_NUMBER, HEADER_FLAG
    ctypedef struct header_field:
        const uint8_t *key
        uint32_t key_size
        int kind, required
        int64_t low, high
    ctypedef struct header_plan:
        void *owner
        uint32_t count
        header_field fields[HEADER_FIELDS]
    ctypedef struct header_value:
        const uint8_t *text
        uint32_t size
        int64_t number
    ctypedef struct header_found:
        int64_t code, flag, opaque, version
        uint32_t given
        header_value values[HEADER_FIELDS]
        uint8_t *scratch
    ctypedef const header_plan *header_plans[HEADER_CODES]
    ctypedef struct header_pair:
        const uint8_t *key
        const uint8_t *text
        uint32_t key_size, size
    ctypedef struct header_pairs:
        uint32_t count
        header_pair pairs[64]
    bint header_sort(header_pairs *pairs)
    int header_plan_add(header_plan *plan, header_field field)
    const header_plan *header_of_json(const uint8_t *p, size_t size, const header_plans *plans, header_found *found, header_pairs *pairs)
    const header_plan *header_of_binary(const uint8_t *p, size_t size, const header_plans *plans, header_found *found, header_pairs *pairs)

cdef extern from "Python.h":
    PyObject *PyList_GET_ITEM(list items, Py_ssize_t at)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *text)
    void Py_XINCREF(PyObject *thing)
    PyObject *PyUnicode_New(Py_ssize_t size, Py_UCS4 largest) except NULL
    void *PyUnicode_DATA(PyObject *text)
    PyObject *PyUnicode_DecodeUTF8(const char *start, Py_ssize_t size, const char *errors) except NULL
    PyObject *PyLong_FromLongLong(long long number) except NULL
    ctypedef struct PyTypeObject
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t count)
    unsigned long Py_TPFLAGS_HAVE_GC

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        int type
        Py_ssize_t offset
    enum: T_OBJECT_EX

cdef enum:
    SHORT = 64  # bytes of a text that is looked up among known ones: making one and its hash costs 60 ns, looking 10
    KNOWN = 256  # 16 KB at most; 64 topics of 16 producers find theirs there
    REQUEST_FIELDS = 9
    ON_STACK = 4096  # bytes: room for the texts of a header without asking for memory

cdef bint slots_of(kind, list names, Py_ssize_t *slots) except -1:
    """Where instances of a Struct keep their fields; False: it has more than these, or is no such Struct."""
    cdef PyMemberDef *slot
    cdef Py_ssize_t at
    if len(names) > HEADER_FIELDS or not isinstance(kind, type) or not issubclass(kind, Struct):
        return False
    has_more = kind.__basicsize__ != object.__basicsize__ + len(names) * sizeof(PyObject *)
    if has_more or kind.__flags__ & Py_TPFLAGS_HAVE_GC or hasattr(kind, "__post_init__"):
        return False
    for at, name in enumerate(names):
        descriptor = getattr(kind, name)
        if type(descriptor) is not MemberDescriptorType:
            return False
        slot = (<PyMemberDescrObject *>descriptor).d_member
        if slot.type != T_OBJECT_EX:
            return False
        slots[at] = slot.offset
    return True


cdef inline void set_slot(thing, Py_ssize_t slot, PyObject *value) noexcept:
    """Takes over the reference. The thing is new: nothing stands there."""
    (<PyObject **>(<char *><PyObject *>thing + slot))[0] = value


KINDS = {str: HEADER_TEXT, int: HEADER_NUMBER, bool: HEADER_FLAG}


cdef class HeaderPlan:
    """The fields of a Record, and where its instances keep them.

    A Record is made as ``copy`` makes one: room for an instance, then the values into its slots. Calling its type costs a
    third more of the whole header (245 ns instead of 185 for a binary send).
    """

    cdef header_plan plan
    cdef object record_type
    cdef tuple defaults, keys
    cdef Py_ssize_t slots[HEADER_FIELDS]

    def __cinit__(self, record_type):
        fields = fields_of(record_type)
        self.plan.owner = <void *>self
        self.record_type = record_type
        self.defaults = tuple([None if field.required else field.default for field in fields])
        self.keys = tuple([field.wire_name.encode() for field in fields])  # their bytes stand in the plan

    cdef bint fill(self) except -1:
        """False: the Record is not as all headers are, scalars in slots and nothing else."""
        cdef header_field made
        cdef Py_ssize_t at
        fields = fields_of(self.record_type)
        if not slots_of(self.record_type, [field.name for field in fields], self.slots):
            return False
        for at, field in enumerate(fields):
            made.key, made.key_size = <const uint8_t *>PyBytes_AS_STRING(self.keys[at]), len(self.keys[at])
            made.kind, made.required = KINDS.get(field.kind, -1), field.required
            made.low, made.high = int_bounds(field.annotation)
            if made.kind < 0 or not header_plan_add(&self.plan, made):
                return False
        return True

    cdef record(self, const header_found *found, list known):
        """Raises ``UnicodeDecodeError``."""
        cdef uint32_t at
        made = PyType_GenericAlloc(<PyTypeObject *>self.record_type, 0)
        for at in range(self.plan.count):
            set_slot(made, self.slots[at], self.value(found, at, known))
        return made

    cdef inline PyObject *value(self, const header_found *found, uint32_t at, list known) except NULL:
        """A new reference."""
        cdef const header_value *value = &found.values[at]
        cdef int kind = self.plan.fields[at].kind
        if not found.given >> at & 1:
            return new_reference(self.defaults[at])
        if kind == HEADER_TEXT:
            return known_text(value.text, value.size, known) if 0 < value.size <= SHORT else text_of(value.text, value.size)
        if kind == HEADER_NUMBER:
            return PyLong_FromLongLong(value.number)
        return new_reference(True) if value.number else new_reference(False)


cdef inline PyObject *new_reference(thing):
    Py_INCREF(thing)
    return <PyObject *>thing


cdef PyObject *text_of(const uint8_t *text, Py_ssize_t size) except NULL:
    """A new reference. Raises ``UnicodeDecodeError``."""
    cdef PyObject *made
    if not bytes_is_ascii(text, size):
        return PyUnicode_DecodeUTF8(<const char *>text, size, NULL)
    made = PyUnicode_New(size, 127)
    if size:
        memcpy(PyUnicode_DATA(made), text, size)
    return made


cdef PyObject *known_text(const uint8_t *text, Py_ssize_t size, list known) except NULL:
    """The same for a short text: the object that was made for it before, if that is not long ago. Names of topics and groups
    come again and again; theirs have their hash already."""
    cdef Py_ssize_t slot = (size * 7 + text[0] * 31 + text[size - 1] * 5 + text[size >> 1] * 3) & (KNOWN - 1)
    cdef PyObject *there = PyList_GET_ITEM(known, slot)
    if PyUnicode_GET_LENGTH(there) == size and memcmp(PyUnicode_DATA(there), text, size) == 0:
        Py_XINCREF(there)
        return there
    if not bytes_is_ascii(text, size):
        return text_of(text, size)
    there = text_of(text, size)
    known[slot] = <object>there
    return there


cdef inline bint is_key(const header_pair *pair, bytes key):
    return pair.key_size == len(key) and memcmp(pair.key, PyBytes_AS_STRING(key), pair.key_size) == 0


cdef object signed_of(header_pairs *pairs):
    """Raises ``UnicodeDecodeError``."""
    cdef const header_pair *pair
    cdef Py_ssize_t at, size = 0
    cdef uint8_t *to
    access_key = signature = None
    if not header_sort(pairs):
        return None
    for at in range(pairs.count):
        pair = &pairs.pairs[at]
        if not bytes_is_ascii(pair.text, pair.size):
            (<const char *>pair.text)[:pair.size].decode()
        if is_key(pair, b"Signature"):
            signature = (<const char *>pair.text)[:pair.size]
            continue
        if is_key(pair, b"AccessKey"):
            access_key = (<const char *>pair.text)[:pair.size].decode()
        elif is_key(pair, b"_UNIQUE_KEY_QUERY"):
            return None
        size += pair.size
    if access_key is None or signature is None:
        return None
    content = PyBytes_FromStringAndSize(NULL, size)
    to = <uint8_t *>PyBytes_AS_STRING(content)
    for at in range(pairs.count):
        pair = &pairs.pairs[at]
        if not is_key(pair, b"Signature"):
            memcpy(to, pair.text, pair.size)
            to += pair.size
    return access_key, signature, content


cdef class Headers:
    cdef header_plans plans
    cdef dict waiting
    cdef list known  # the plans by code are those of these
    cdef list texts
    cdef object made
    cdef bint in_slots
    cdef Py_ssize_t slots[HEADER_FIELDS]

    def __cinit__(self, request_types, made, /):
        self.waiting, self.known, self.texts = dict(request_types), [], [""] * KNOWN
        self.made = made
        self.in_slots = slots_of(made, list(getattr(made, "__struct_fields__", ())), self.slots)
        if self.in_slots and len(made.__struct_fields__) != REQUEST_FIELDS:
            raise TypeError(f"a request has {REQUEST_FIELDS} fields")

    def read(self, int form, bytes header not None, received_at_ms, connection, /):
        return self.decoded(form, header, received_at_ms, connection, NULL)

    def signed(self, int form, bytes header not None, /):
        cdef header_pairs pairs
        pairs.count = 0
        return self.decoded(form, header, None, None, &pairs)

    cdef object request(self, int form, bytes header, received_at_ms, connection, const header_found *found, record):
        if not self.in_slots:
            return self.made(
                record, found.code, found.opaque, found.flag, found.version, received_at_ms, connection, form, header
            )
        request = PyType_GenericAlloc(<PyTypeObject *>self.made, 0)
        set_slot(request, self.slots[0], new_reference(record))
        set_slot(request, self.slots[1], PyLong_FromLongLong(found.code))
        set_slot(request, self.slots[2], PyLong_FromLongLong(found.opaque))
        set_slot(request, self.slots[3], PyLong_FromLongLong(found.flag))
        set_slot(request, self.slots[4], PyLong_FromLongLong(found.version))
        set_slot(request, self.slots[5], new_reference(received_at_ms))
        set_slot(request, self.slots[6], new_reference(connection))
        set_slot(request, self.slots[7], PyLong_FromLongLong(form))
        set_slot(request, self.slots[8], new_reference(header))
        return request

    cdef object decoded(self, int form, bytes header, received_at_ms, connection, header_pairs *pairs):
        """The request, or, where pairs are wanted, what of it is signed."""
        cdef header_found found
        cdef const header_plan *plan
        cdef uint8_t room[ON_STACK]
        cdef uint8_t *more = NULL
        cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(header)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(header)
        if form != 0 and form != 1:
            return None
        found.scratch = &room[0]
        if form == 0 and size > ON_STACK:
            found.scratch = more = <uint8_t *>PyMem_Malloc(size)
            if more == NULL:
                raise MemoryError
        try:
            plan = header_of_json(start, size, &self.plans, &found, pairs) if form == 0 else header_of_binary(start, size, &self.plans, &found, pairs)
            if plan == NULL:
                if not self.learn(found.code):
                    return None
                return self.decoded(form, header, received_at_ms, connection, pairs)
            if pairs != NULL:
                return signed_of(pairs)
            record = (<HeaderPlan>plan.owner).record(&found, self.texts)
            return self.request(form, header, received_at_ms, connection, &found, record)
        except UnicodeDecodeError:
            return None
        finally:
            PyMem_Free(more)

    cdef bint learn(self, int64_t code) except -1:
        """Make the plan of a code that is met for the first time; False: there is nothing to make."""
        cdef HeaderPlan plan
        record_type = self.waiting.pop(code, None)
        if record_type is None or not 0 <= code < HEADER_CODES:
            return False
        plan = HeaderPlan(record_type)
        if not plan.fill():
            return False
        self.known.append(plan)
        self.plans[code] = &plan.plan
        return True
