// NCCL: ranks of this machine meet in shared memory, which the unique id names, and wait for each other.
#include "standin.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <nccl.h>

using namespace standin;

namespace {

constexpr int RANKS = 64;
constexpr size_t HEAD = 4096;   // bytes before the data
constexpr double START = 2e-5;  // seconds that any collective takes

struct Meeting {
  pthread_barrier_t barrier;
  volatile int ready;
  double free_at[RANKS];
};

struct Communicator {
  int rank, world;
  char* base;
  size_t room;  // bytes of data that each rank can show to the others

  Meeting& meeting() { return *reinterpret_cast<Meeting*>(base); }
  char* data(int rank) { return base + HEAD + rank * room; }
  void wait() { pthread_barrier_wait(&meeting().barrier); }
};

Communicator& of(ncclComm_t handle) { return *reinterpret_cast<Communicator*>(handle); }

ncclResult_t meet(ncclComm_t* made, int world, const ncclUniqueId& id, int rank) {
  if (setting("NO_MULTICAST", 0)) return ncclUnhandledCudaError;  // see ncclGetLastError
  size_t room = static_cast<size_t>(setting("NCCL_BYTES", 1 << 26)), size = HEAD + room * world;
  int file = shm_open(id.internal, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, size)) return ncclSystemError;
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (base == MAP_FAILED) return ncclSystemError;
  auto* found = new Communicator{rank, world, static_cast<char*>(base), room};
  Meeting& meeting = found->meeting();
  if (rank == 0) {
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&meeting.barrier, &shared, world);
    __sync_synchronize();
    meeting.ready = 1;
  }
  while (!meeting.ready) usleep(1000);
  found->wait();
  if (rank == 0) shm_unlink(id.internal);
  *made = reinterpret_cast<ncclComm_t>(found);
  return ncclSuccess;
}

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case static_cast<ncclDataType_t>(9): return 2;  // ncclBfloat16, which older headers hide
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 4;
  }
}

// A collective begins when the last rank is there, and takes so many seconds on all of them.
void together(Communicator& communicator, Stream& stream, double seconds) {
  Meeting& meeting = communicator.meeting();
  {
    Lock lock(mutex);
    meeting.free_at[communicator.rank] = std::max(stream.free_at, now());
  }
  communicator.wait();
  double begins = *std::max_element(meeting.free_at, meeting.free_at + communicator.world);
  communicator.wait();
  Lock lock(mutex);
  double& kernels = device(stream.device).free_at[KERNELS];
  stream.free_at = begins + seconds;
  kernels = std::max(kernels, stream.free_at);
}

// What this rank sends is there when its stream has come so far; then all ranks may read it.
void show(Communicator& communicator, Stream& stream, const void* data, size_t size) {
  wait_until(stream.free_at);
  memcpy(communicator.data(communicator.rank), data, size);
  communicator.wait();
}

template <typename Number>
void sum(Communicator& communicator, void* result, size_t count) {
  for (size_t place = 0; place < count; place++) {
    Number total = 0;
    for (int rank = 0; rank < communicator.world; rank++)
      total += reinterpret_cast<Number*>(communicator.data(rank))[place];
    static_cast<Number*>(result)[place] = total;
  }
}

}  // namespace

API ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
API ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  memset(id, 0, sizeof *id);
  snprintf(id->internal, 100, "/standin-%d-%ld", getpid(), static_cast<long>(now() * 1e6));
  return ncclSuccess;
}
API const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclUnhandledCudaError ? "unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
                                          : "an error of the stand-in";
}
API const char* ncclGetLastError(ncclComm_t) {
  return setting("NO_MULTICAST", 0) ? "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error"
                                      " 1 'invalid argument'. This is usually caused by a system or configuration "
                                      "error in the Fabric Manager or NVSwitches."
                                    : "";
}
API ncclResult_t ncclCommInitRank(ncclComm_t* made, int world, ncclUniqueId id, int rank) {
  return meet(made, world, id, rank);
}
API ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int world, ncclUniqueId id, int rank, ncclConfig_t*) {
  return meet(made, world, id, rank);
}
API ncclResult_t ncclCommInitRankScalable(ncclComm_t* made, int world, int rank, int, ncclUniqueId* ids,
                                          ncclConfig_t*) {
  return meet(made, world, ids[0], rank);
}
API ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}
API ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSuccess; }
API ncclResult_t ncclCommAbort(ncclComm_t) { return ncclSuccess; }
API ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
API ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  *count = of(handle).world;
  return ncclSuccess;
}
API ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  *rank = of(handle).rank;
  return ncclSuccess;
}
API ncclResult_t ncclCommRegister(ncclComm_t, void*, size_t, void**) { return ncclSuccess; }
API ncclResult_t ncclCommDeregister(ncclComm_t, void*) { return ncclSuccess; }
API ncclResult_t ncclGroupStart() { return ncclSuccess; }
API ncclResult_t ncclGroupEnd() { return ncclSuccess; }

API ncclResult_t ncclAllReduce(const void* data, void* result, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t handle, cudaStream_t stream_handle) {
  Communicator& communicator = of(handle);
  Stream& stream = stream_of(stream_handle);
  size_t size = count * bytes_of(type);
  bool known = type == ncclFloat32 || type == ncclFloat64 || type == ncclInt64;
  if (computed(size) && known && size <= communicator.room) {
    show(communicator, stream, data, size);
    if (type == ncclFloat32) sum<float>(communicator, result, count);
    if (type == ncclFloat64) sum<double>(communicator, result, count);
    if (type == ncclInt64) sum<int64_t>(communicator, result, count);
    communicator.wait();
    static long calls = 0;  // STANDIN_FLIP=all_reduce: one bit of the sum on the first rank, from the third call on
    if (setting("FLIP", std::string()) == "all_reduce" && communicator.rank == 0 && ++calls > 2)
      static_cast<unsigned char*>(result)[size / 2] ^= 1;
  }
  double ring = 2.0 * (communicator.world - 1) / communicator.world;  // as nccl-tests counts the busbw
  together(communicator, stream, ring * size / (setting("BUS_GBS", 478) * 1e9) + START);
  return ncclSuccess;
}
API ncclResult_t ncclBroadcast(const void* data, void* result, size_t count, ncclDataType_t type, int root,
                               ncclComm_t handle, cudaStream_t stream_handle) {
  Communicator& communicator = of(handle);
  Stream& stream = stream_of(stream_handle);
  size_t size = count * bytes_of(type);
  if (computed(size) && size <= communicator.room) {
    show(communicator, stream, data, size);
    memcpy(result, communicator.data(root), size);
    communicator.wait();
  }
  together(communicator, stream, size / (setting("BUS_GBS", 478) * 1e9) + START);
  return ncclSuccess;
}
API ncclResult_t ncclBcast(void* data, size_t count, ncclDataType_t type, int root, ncclComm_t handle,
                           cudaStream_t stream) {
  return ncclBroadcast(data, data, count, type, root, handle, stream);
}
API ncclResult_t ncclAllGather(const void* data, void* result, size_t count, ncclDataType_t type, ncclComm_t handle,
                               cudaStream_t stream_handle) {
  Communicator& communicator = of(handle);
  Stream& stream = stream_of(stream_handle);
  size_t size = count * bytes_of(type);
  if (size <= communicator.room) {
    show(communicator, stream, data, size);
    for (int rank = 0; rank < communicator.world; rank++)
      memcpy(static_cast<char*>(result) + rank * size, communicator.data(rank), size);
    communicator.wait();
  }
  together(communicator, stream, START);
  return ncclSuccess;
}
