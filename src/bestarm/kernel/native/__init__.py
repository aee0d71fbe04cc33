"""Kernels as machine code: from their source to LLVM's language, and from there to functions that can be called."""
