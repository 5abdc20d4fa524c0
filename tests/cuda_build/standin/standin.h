// A stand-in for CUDA's runtime, cuBLAS, cuBLASLt and NCCL: what its parts share.
//
// It is put below an unchanged CUDA build of torch by LD_PRELOAD. It computes nothing and keeps time: device memory is
// host memory, and streams and engines have a clock that runs with the host's. Work begins when it was queued and its
// stream and engine are free, and lasts bytes or operations divided by a stated rate; waits really wait.
// Settings are environment variables, STANDIN_...; node.py lists them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <mutex>
#include <string>

#define API extern "C" __attribute__((visibility("default")))

namespace standin {

enum Engine { KERNELS, TO_DEVICE, TO_HOST, TO_PEER, ENGINES };

struct Device {
  std::string uuid;
  int bus;  // of its PCI address
  size_t total, used;
  std::array<double, ENGINES> free_at;  // when each engine has done all that is queued
};

struct Stream {
  int device;
  double free_at;
  int priority;
};

extern std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;

double now();                   // seconds of the host's monotonic clock
void wait_until(double moment); // without holding the mutex
double setting(const char* name, double otherwise);
std::string setting(const char* name, const std::string& otherwise);

Device& device(int number);     // by its place among the visible ones
Stream& stream_of(cudaStream_t handle);
// Queues work of so many seconds behind what its stream and its engine have; returns when it ends.
double queue(Stream& stream, Engine engine, double seconds);
double launch_seconds();        // of any kernel, beside its work
int current_device();
bool computed(size_t bytes);    // whether data of this size are moved and computed; larger ones only take their time

}  // namespace standin
