//! Runs kernels inside worker processes.
