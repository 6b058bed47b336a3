# cython: language_level=3, binding=False
"""The compiled leaves: a file per subject, the loops in C headers. What each does is said at its twin (``__init__``)."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

cdef enum:
    MUCH = 65536  # bytes are read or copied in 5 µs: from there on other threads may run meanwhile

cdef extern from "built_from.h":
    uint32_t LEAVES_BUILT_FROM

cdef extern from "bytes.h" nogil:
    uint32_t bytes_read_u32(const uint8_t *p)
    int64_t bytes_read_i64(const uint8_t *p)
    void bytes_write_i64(uint8_t *p, int64_t number)
    bint bytes_is_ascii(const uint8_t *text, size_t size)

BUILT_FROM = LEAVES_BUILT_FROM

include "checksums.pxi"
include "frames.pxi"
include "headers.pxi"
include "replies.pxi"
include "answers.pxi"
include "index.pxi"
include "units.pxi"
include "pulls.pxi"
include "records.pxi"
include "pairs.pxi"
include "items.pxi"
include "put.pxi"
include "entries.pxi"
