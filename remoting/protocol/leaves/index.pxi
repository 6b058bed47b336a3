from array import array as _array

from cpython cimport array
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libc.stdint cimport int32_t, int64_t

from ..message.index_keys import topic_prefix as _topic_prefix
from .pure_index import LOOKED_AT as _LOOKED_AT

cdef extern from "index.h" nogil:
    ctypedef struct property_value:
        const uint8_t *at
        size_t size
    bint java_hash(const uint8_t *text, size_t size, uint32_t *hash)
    int32_t index_without_sign(uint32_t hash)
    void index_values(const uint8_t *p, size_t n, property_value *unique, property_value *keys)
    size_t index_chain(uint8_t *slots, uint32_t slot_count, uint32_t first, int64_t begin, const int32_t *hashes,
        const int64_t *phy_offsets, const int64_t *timestamps, size_t count, uint8_t *items)

cdef enum:
    ROLLED_BACK = 12  # of a sysFlag

cdef Py_ssize_t looked_at_most = _LOOKED_AT
cdef array.array _ints = _array("i")
cdef array.array _longs = _array("q")
cdef array.array _octets = _array("B")


cdef class _Entries:
    """The three columns, while they grow."""
    cdef array.array hashes, phy_offsets, timestamps
    cdef Py_ssize_t count, room

    cdef int add(self, int32_t hashed, int64_t phy_offset, int64_t timestamp) except -1:
        if self.count == self.room:
            self.room = 2 * self.room + 64
            array.resize(self.hashes, self.room)
            array.resize(self.phy_offsets, self.room)
            array.resize(self.timestamps, self.room)
        (<int32_t *>self.hashes.data.as_voidptr)[self.count] = hashed
        (<int64_t *>self.phy_offsets.data.as_voidptr)[self.count] = phy_offset
        (<int64_t *>self.timestamps.data.as_voidptr)[self.count] = timestamp
        self.count += 1
        return 0

    cdef int add_key(self, uint32_t prefix, const uint8_t *key, size_t size, int64_t phy_offset, int64_t timestamp) except -1:
        cdef uint32_t hashed = prefix
        if java_hash(key, size, &hashed):
            return self.add(index_without_sign(hashed), phy_offset, timestamp)
        return self.add(index_without_sign(hash_going_on(prefix, (<const char *>key)[:size].decode("utf-8", "replace"))),
            phy_offset, timestamp)

    cdef int add_keys(self, uint32_t prefix, const uint8_t *properties, size_t length, int64_t phy_offset, int64_t timestamp) except -1:
        cdef property_value unique, keys
        cdef size_t size, start = 0
        index_values(properties, length, &unique, &keys)
        if unique.size:
            self.add_key(prefix, unique.at, unique.size, phy_offset, timestamp)
        for size in range(keys.size + 1):
            if size == keys.size or keys.at[size] == 32:
                if size > start:
                    self.add_key(prefix, keys.at + start, size - start, phy_offset, timestamp)
                start = size + 1
        return 0

    cdef tuple columns(self):
        array.resize(self.hashes, self.count)
        array.resize(self.phy_offsets, self.count)
        array.resize(self.timestamps, self.count)
        return self.hashes, self.phy_offsets, self.timestamps


cdef uint32_t hash_going_on(uint32_t hashed, str text):
    """Java counts UTF-16 units."""
    cdef uint32_t character
    for letter in text:
        character = <uint32_t><Py_UCS4>letter
        if character > 0xFFFF:
            hashed = hashed * 31 + 0xD800 + (character - 0x10000 >> 10)
            character = 0xDC00 + (character - 0x10000 & 0x3FF)
        hashed = hashed * 31 + character
    return hashed


cdef _Entries _room_for(Py_ssize_t count):
    cdef _Entries entries = _Entries.__new__(_Entries)
    entries.room = count
    entries.hashes = array.clone(_ints, count, False)
    entries.phy_offsets = array.clone(_longs, count, False)
    entries.timestamps = array.clone(_longs, count, False)
    return entries


cdef enum:
    LONG = 1024  # bytes of properties: 500 keys, 10 µs
    MANY = 65536  # entries that wait: 1 ms if one batch has brought them all


cdef class KeyEntries:
    """What is long, or comes while very much waits, or is no ASCII, is looked at later, by ``take``: one body may hold two
    million keys. What comes behind such a message waits as well: entries stand in the order of the log."""
    cdef _Entries entries
    cdef list late  # (prefix, properties, phy_offset, timestamp)

    def __cinit__(self):
        self.entries, self.late = _room_for(0), []

    def __len__(self):
        return self.entries.count + len(self.late)

    @property
    def first_offset(self):
        if self.entries.count:
            return (<int64_t *>self.entries.phy_offsets.data.as_voidptr)[0]
        return self.late[0][2] if self.late else -1

    @property
    def last_offset(self):
        if self.late:
            return self.late[-1][2]
        return (<int64_t *>self.entries.phy_offsets.data.as_voidptr)[self.entries.count - 1] if self.entries.count else -1

    def add(self, str topic not None, bytes properties not None, int64_t phy_offset, int64_t timestamp, int64_t sys_flag, /):
        if sys_flag & ROLLED_BACK != ROLLED_BACK:
            self.note(_topic_prefix(topic), <const uint8_t *>PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties),
                phy_offset, timestamp)

    cdef int note(self, uint32_t prefix, const uint8_t *properties, size_t size, int64_t phy_offset, int64_t timestamp) except -1:
        if size > LONG or self.entries.count > MANY or len(self.late) or not bytes_is_ascii(properties, size):
            self.late.append((prefix, PyBytes_FromStringAndSize(<const char *>properties, size), phy_offset, timestamp))
            return 0
        return self.entries.add_keys(prefix, properties, size, phy_offset, timestamp)

    def take(self, Py_ssize_t most, /):
        cdef _Entries entries = self.entries
        if most < 1:
            raise ValueError("nothing can be taken")
        while not entries.count and len(self.late):
            self.look(most)
        if entries.count <= most:
            self.entries = _room_for(0)
            return entries.columns()
        columns = entries.columns()
        taken = tuple([column[:most] for column in columns])
        for column in columns:
            del column[:most]
        entries.count = entries.room = entries.count - most
        return taken

    cdef int look(self, Py_ssize_t most) except -1:
        """At some of the late ones."""
        cdef Py_ssize_t taken = 0, looked_at = 0
        cdef bytes properties
        while taken < len(self.late) and self.entries.count < most and looked_at < looked_at_most:
            prefix, properties, phy_offset, timestamp = <tuple>self.late[taken]
            looked_at += PyBytes_GET_SIZE(properties)
            self.entries.add_keys(prefix, <const uint8_t *>PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties),
                phy_offset, timestamp)
            taken += 1
        del self.late[:taken]
        return 0


cdef uint32_t prefix_of(bytes topic_field) except? 0:
    """``topic_prefix`` of what stands in a record, with its length in front."""
    cdef uint32_t prefix = 0
    if java_hash(<const uint8_t *>PyBytes_AS_STRING(topic_field) + 1, max(PyBytes_GET_SIZE(topic_field) - 1, 0), &prefix):
        return prefix * 31 + 35  # as if it ended in a #
    return _topic_prefix(topic_field[1:].decode())


def record_entries(records, list prefixes not None, Py_ssize_t first, Py_ssize_t most, /):
    cdef Py_ssize_t count = len(records.at), row = first, stop, looked_at = 0
    cdef uint32_t prefix = 0
    cdef _Entries entries = _room_for(max(0, min(count - first, most)))
    cdef const int64_t *at = _numbers(records.at, count)
    cdef const int64_t *sizes = _numbers(records.sizes, count)
    cdef const int64_t *phy_offsets = _numbers(records.phy_offsets, count)
    cdef const int64_t *properties_at = _numbers(records.properties_at, count)
    cdef const int64_t *topics = _numbers(records.topics, count)
    cdef const int64_t *sys_flags = _numbers(records.sys_flags, count)
    cdef const int64_t *timestamps = _numbers(records.store_timestamps, count)
    cdef Py_buffer view
    PyObject_GetBuffer(records.data, &view, PyBUF_SIMPLE)
    try:
        if first < 0:
            raise IndexError(first)
        while row < count and entries.count < most and looked_at < looked_at_most:
            stop = at[row] + sizes[row]
            if not 0 <= properties_at[row] <= stop <= view.len:
                raise ValueError("the properties do not lie in the data")
            if row == first or topics[row] != topics[row - 1]:
                prefix = prefixes[topics[row]]
            if sys_flags[row] & ROLLED_BACK != ROLLED_BACK:
                looked_at += stop - properties_at[row]
                entries.add_keys(prefix, <const uint8_t *>view.buf + properties_at[row],
                    stop - properties_at[row], phy_offsets[row], timestamps[row])
            row += 1
    finally:
        PyBuffer_Release(&view)
    return row - first, entries.columns()


cdef const int64_t *_numbers(array.array column, Py_ssize_t count) except? NULL:  # an empty one has no place
    if column.typecode != "q" or len(column) != count:
        raise ValueError("a column of another length or type")
    return <const int64_t *>column.data.as_voidptr


def chain_items(
    slots, uint32_t first, int64_t begin_timestamp, array.array hashes, array.array phy_offsets, array.array timestamps, /
):
    cdef Py_buffer table
    cdef Py_ssize_t count = len(hashes)
    cdef const int64_t *offsets = _numbers(phy_offsets, count)
    cdef const int64_t *times = _numbers(timestamps, count)
    cdef size_t used
    if hashes.typecode != "i":
        raise ValueError("a column of another length or type")
    items = PyBytes_FromStringAndSize(NULL, 20 * count)
    PyObject_GetBuffer(slots, &table, PyBUF_WRITABLE)
    try:
        if count and table.len < 4:
            raise ValueError("there are no slots")
        used = index_chain(<uint8_t *>table.buf, table.len // 4, first, begin_timestamp,
            <const int32_t *>hashes.data.as_voidptr, offsets, times, count, <uint8_t *>PyBytes_AS_STRING(items))
    finally:
        PyBuffer_Release(&table)
    return items, used
