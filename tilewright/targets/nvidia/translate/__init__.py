"""LLVM text of one kernel as PTX, without LLVM.

`module.translated` is the face.  A `Body` (`body`) holds what is known of each value; the handlers of a family of
instructions are a file (`integers`, `casts`, `floats`, `pointers`, `vectors`, `calls`, `statements`), `flow` has blocks,
phis and branches, `writing` prints what is alive.
"""
