"""NVIDIA GPUs: layouts, PTX text, the machine that executes it, the driver."""
