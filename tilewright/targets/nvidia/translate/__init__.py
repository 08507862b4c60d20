"""LLVM text of one kernel as PTX, without LLVM.

`module.translated` is the face.  A `Body` (`body`) holds what is known of each value; each family of instructions is a
file (`integers`, `division`, `conditions`, `casts`, `floats`, `pointers`, `vectors`, `calls`, `statements`); `flow` has
blocks, phis and branches; `sinking` and `joining` move and name what is alive, and `writing` prints it.
"""
