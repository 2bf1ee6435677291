# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The kernel in C. What each call does and refuses is said in `pure`; both give the same for the same bytes.

The parts in `_kernel_parts` are one translation unit; each uses those before it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from kavka.wire.records import corrupt
from kavka.wire.records.corrupt import CorruptBatch

NAME = "compiled"

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject* (*tp_alloc)(PyTypeObject*, Py_ssize_t) except NULL
    void Py_DECREF_one "Py_DECREF" (PyObject*)
    void PyObject_GC_UnTrack(void*)
    object PyMemoryView_FromMemory(char* memory, Py_ssize_t size, int flags)
    int PyBUF_READ
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

ctypedef const uint8_t* Bytes

cdef enum:
    SOUND = 0
    LENGTH = 1
    FIELDS = 2
    MISSING = 3
    EXTRA = 4
    MORE_HEADERS = 5
    CUT = 6
    SMALLEST_RECORD = 7
    WRONG_OFFSET = 1
    NO_KEY = 2
    BAD_TIMESTAMP = 3
    MISLEADS = 4
    MAX_VIOLATIONS = 1024
    SMALLEST_TAKEN = 65536

cdef int64_t NO_LIMIT_MS = 0x7FFFFFFFFFFFFFFF

cdef struct Record:
    Py_ssize_t end
    int64_t delta
    int64_t offset
    Py_ssize_t key_at
    int64_t key_length
    Py_ssize_t value_at
    int64_t value_length
    Py_ssize_t headers_at
    int64_t header_count


include "_kernel_parts/parsing.pxi"
include "_kernel_parts/headers.pxi"
include "_kernel_parts/reading.pxi"
include "_kernel_parts/columns.pxi"
include "_kernel_parts/writing.pxi"
include "_kernel_parts/writing_columns.pxi"
include "_kernel_parts/choosing.pxi"
include "_kernel_parts/gathering.pxi"
include "_kernel_parts/checksums.pxi"
include "_kernel_parts/taking.pxi"
include "_kernel_parts/offset_map.pxi"
include "_kernel_parts/cleaning.pxi"
