from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.string cimport memcpy

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
    int header_plan_add(header_plan *plan, header_field field)
    const header_plan *header_of_json(const uint8_t *p, size_t size, const header_plans *plans, header_found *found)
    const header_plan *header_of_binary(const uint8_t *p, size_t size, const header_plans *plans, header_found *found)

cdef extern from "Python.h":
    PyObject *PyUnicode_New(Py_ssize_t size, Py_UCS4 largest) except NULL
    void *PyUnicode_DATA(PyObject *text)
    PyObject *PyUnicode_DecodeUTF8(const char *start, Py_ssize_t size, const char *errors) except NULL
    PyObject *PyLong_FromLongLong(long long number) except NULL
    object PyObject_Vectorcall(object called, PyObject **args, size_t count, object names)

cdef enum:
    ON_STACK = 4096  # bytes: room for the texts of a header without asking for memory

KINDS = {str: HEADER_TEXT, int: HEADER_NUMBER, bool: HEADER_FLAG}


cdef class HeaderPlan:
    """The fields of a Record."""

    cdef header_plan plan
    cdef object record_type, names
    cdef tuple defaults, keys

    def __cinit__(self, record_type):
        fields = fields_of(record_type)
        self.plan.owner = <void *>self
        self.record_type = record_type
        self.names = tuple([field.name for field in fields])
        self.defaults = tuple([None if field.required else field.default for field in fields])
        self.keys = tuple([field.wire_name.encode() for field in fields])  # their bytes stand in the plan

    cdef bint fill(self) except -1:
        """False: it has fields that are no scalars, or too many."""
        cdef header_field made
        for field, key in zip(fields_of(self.record_type), self.keys):
            made.key, made.key_size = <const uint8_t *>PyBytes_AS_STRING(key), len(key)
            made.kind, made.required = KINDS.get(field.kind, -1), field.required
            made.low, made.high = int_bounds(field.annotation)
            if made.kind < 0 or not header_plan_add(&self.plan, made):
                return False
        return True

    cdef record(self, const header_found *found):
        """Raises ``UnicodeDecodeError``."""
        cdef PyObject *values[HEADER_FIELDS]
        cdef uint32_t at, count = 0
        try:
            while count < self.plan.count:
                values[count] = self.value(found, count)
                count += 1
            return PyObject_Vectorcall(self.record_type, values, 0, self.names)
        finally:
            for at in range(count):
                Py_DECREF(<object>values[at])

    cdef inline PyObject *value(self, const header_found *found, uint32_t at) except NULL:
        """A new reference."""
        cdef const header_value *value = &found.values[at]
        cdef int kind = self.plan.fields[at].kind
        if not found.given >> at & 1:
            return new_reference(self.defaults[at])
        if kind == HEADER_TEXT:
            return text_of(value.text, value.size)
        if kind == HEADER_NUMBER:
            return PyLong_FromLongLong(value.number)
        return new_reference(True) if value.number else new_reference(False)


cdef inline PyObject *new_reference(thing):
    Py_INCREF(thing)
    return <PyObject *>thing


cdef PyObject *text_of(const uint8_t *text, Py_ssize_t size) except NULL:
    """A new reference. Raises ``UnicodeDecodeError``."""
    cdef Py_ssize_t at
    cdef uint8_t high = 0
    cdef PyObject *made
    for at in range(size):
        high |= text[at]
    if high >= 0x80:
        return PyUnicode_DecodeUTF8(<const char *>text, size, NULL)
    made = PyUnicode_New(size, 127)
    if size:
        memcpy(PyUnicode_DATA(made), text, size)
    return made


cdef class Headers:
    cdef header_plans plans
    cdef dict waiting
    cdef list known  # the plans by code are those of these

    def __cinit__(self, request_types, /):
        self.waiting, self.known = dict(request_types), []

    def read(self, int form, bytes header not None, /):
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
            plan = header_of_json(start, size, &self.plans, &found) if form == 0 else header_of_binary(start, size, &self.plans, &found)
            if plan == NULL:
                return self.read(form, header) if self.learn(found.code) else None
            record = (<HeaderPlan>plan.owner).record(&found)
            return found.code, found.opaque, found.flag, found.version, record
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
