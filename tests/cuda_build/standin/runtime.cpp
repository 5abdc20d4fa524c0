// CUDA's runtime: devices, memory, copies, streams and events.
#include "standin.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include <cuda.h>

using namespace standin;

namespace standin {

std::recursive_mutex mutex;

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

void wait_until(double moment) {
  for (double left; (left = moment - now()) > 0;) {
    timespec time{static_cast<time_t>(left), static_cast<long>((left - static_cast<time_t>(left)) * 1e9)};
    nanosleep(&time, nullptr);
  }
}

std::string setting(const char* name, const std::string& otherwise) {
  const char* value = getenv((std::string("STANDIN_") + name).c_str());
  return value && *value ? value : otherwise;
}

double setting(const char* name, double otherwise) {
  std::string value = setting(name, std::string());
  return value.empty() ? otherwise : atof(value.c_str());
}

}  // namespace standin

namespace {

constexpr size_t PAGE = 2 << 20, HOST_PAGE = 4096;
constexpr double LATENCY = 2e-6, HOP = 5e-6;

struct Event {
  int device;
  double at;
  bool recorded, timed;
};

struct Range {
  size_t size;
  int device;  // HOST for pinned memory
};
constexpr int HOST = -1, PAGEABLE = -2;

std::string uuid_of(int number) {
  char text[64];
  snprintf(text, sizeof text, "%s%x", setting("UUID", std::string("GPU-8932f937-d72c-4106-c12f-20bd9faed9f")).c_str(),
           number);
  return text;
}

// The devices of a node that CUDA_VISIBLE_DEVICES shows, as CUDA reads it: up to the first name that is not known.
std::vector<int> visible() {
  std::vector<int> found;
  int count = static_cast<int>(setting("GPUS", 1));
  const char* names = getenv("CUDA_VISIBLE_DEVICES");
  if (setting("MIG", 0)) return found;  // devices that are divided are not seen as a whole
  if (!names) {
    for (int number = 0; number < count; number++) found.push_back(number);
    return found;
  }
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    int hit = -1;
    for (int number = 0; number < count; number++)
      if (name == std::to_string(number) || (name.size() > 4 && uuid_of(number).rfind(name, 0) == 0)) hit = number;
    if (hit < 0) break;
    found.push_back(hit);
  }
  return found;
}

struct Node {
  std::vector<Device> devices;
  std::vector<Stream> defaults;
  std::map<uintptr_t, Range> ranges;
  double memory, to_device, to_host, peer;

  Node() {
    memory = setting("MEMORY_GBS", 4300) * 1e9;
    to_device = setting("H2D_GBS", 55.4) * 1e9;
    to_host = setting("D2H_GBS", 55.0) * 1e9;
    peer = setting("PEER_GBS", 392) * 1e9;
    for (int number : visible()) {
      size_t total = static_cast<size_t>(setting("TOTAL_BYTES", 141.0 * (1ull << 30)));
      devices.push_back(Device{uuid_of(number), 0x1A + number, total, 520 << 20, {}});
      defaults.push_back(Stream{static_cast<int>(devices.size()) - 1, 0, 0});
    }
  }

  const Range* range_of(const void* address) {
    auto after = ranges.upper_bound(reinterpret_cast<uintptr_t>(address));
    if (after == ranges.begin()) return nullptr;
    --after;
    return reinterpret_cast<uintptr_t>(address) < after->first + after->second.size ? &after->second : nullptr;
  }
  int place_of(const void* address) {
    const Range* range = range_of(address);
    return range ? range->device : PAGEABLE;
  }
};

Node& node() {
  static Node only;
  return only;
}

thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;

cudaError_t failed(cudaError_t error) { return last = error; }

// STANDIN_ECC=uuid: after so many waits every call that waits for this device reports memory that cannot be corrected.
bool broken() {
  static long waits = 0;
  std::string uuid = setting("ECC", std::string());
  if (uuid.empty()) return false;
  for (const Device& each : node().devices)
    if (each.uuid == uuid) return ++waits > setting("ECC_AFTER", 50);
  return false;
}

void* reserve(size_t size) {
  size = (size + HOST_PAGE - 1) & ~(HOST_PAGE - 1);
  void* found = mmap(nullptr, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(found) + PAGE - 1) & ~(PAGE - 1));
}

size_t in_pages(size_t size) { return (size + PAGE - 1) & ~(PAGE - 1); }

double all_done(const Device& device) { return *std::max_element(device.free_at.begin(), device.free_at.end()); }

cudaError_t copy(void* target, const void* source, size_t size, Stream& stream) {
  int to = node().place_of(target), from = node().place_of(source);
  Engine engine;
  double rate;
  if (to >= 0 && from >= 0) {
    engine = to == from ? KERNELS : TO_PEER;
    rate = to == from ? node().memory / 2 : node().peer;
  } else if (to >= 0) {
    engine = TO_DEVICE;
    rate = from == PAGEABLE ? node().to_device / 5 : node().to_device;
  } else {
    engine = TO_HOST;
    rate = to == PAGEABLE ? node().to_host / 5 : node().to_host;
  }
  queue(stream, engine, size / rate + LATENCY);
  if (computed(size)) memcpy(target, source, size);
  if (to == PAGEABLE || from == PAGEABLE) wait_until(stream.free_at);
  return cudaSuccess;
}

}  // namespace

namespace standin {

Device& device(int number) { return node().devices[number]; }
int current_device() { return current; }
bool computed(size_t bytes) {
  static double most = setting("COMPUTED_BYTES", 1 << 20);
  return bytes <= most;
}
double launch_seconds() {
  static double seconds = setting("LAUNCH_US", 3) * 1e-6;
  return seconds;
}

Stream& stream_of(cudaStream_t handle) {
  if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread) return node().defaults[current];
  return *reinterpret_cast<Stream*>(handle);
}

double queue(Stream& stream, Engine engine, double seconds) {
  double& free_at = device(stream.device).free_at[engine];
  double begins = std::max({stream.free_at, now() + LATENCY, free_at});
  return free_at = stream.free_at = begins + seconds;
}

}  // namespace standin

// -- devices

API cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(node().devices.size());
  return *count ? cudaSuccess : failed(cudaErrorNoDevice);
}
API cudaError_t cudaGetDevice(int* number) {
  *number = current;
  return node().devices.empty() ? failed(cudaErrorNoDevice) : cudaSuccess;
}
API cudaError_t cudaSetDevice(int number) {
  if (number < 0 || number >= static_cast<int>(node().devices.size())) return failed(cudaErrorInvalidDevice);
  current = number;
  return cudaSuccess;
}
API cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
API cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (number < 0 || number >= static_cast<int>(node().devices.size())) return failed(cudaErrorInvalidDevice);
  const Device& chosen = device(number);
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "%s", setting("NAME", std::string("NVIDIA H200")).c_str());
  std::string digits;
  for (char each : chosen.uuid.substr(4))
    if (each != '-') digits += each;
  for (size_t place = 0; place < 16; place++)
    properties->uuid.bytes[place] = static_cast<char>(std::stoi(digits.substr(2 * place, 2), nullptr, 16));
  int capability = static_cast<int>(setting("CAPABILITY", 90));
  properties->major = capability / 10, properties->minor = capability % 10;
  properties->multiProcessorCount = static_cast<int>(setting("SMS", 132));
  properties->l2CacheSize = static_cast<int>(setting("L2_BYTES", 60 << 20));
  properties->totalGlobalMem = chosen.total, properties->totalConstMem = 65536;
  properties->sharedMemPerBlock = 49152, properties->sharedMemPerBlockOptin = 232448;
  properties->sharedMemPerMultiprocessor = 233472;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32, properties->maxThreadsPerBlock = 1024, properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024, properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647, properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->pciBusID = chosen.bus;
  properties->concurrentKernels = properties->unifiedAddressing = properties->managedMemory = 1;
  properties->cooperativeLaunch = properties->canMapHostMemory = properties->streamPrioritiesSupported = 1;
  properties->ECCEnabled = 1, properties->asyncEngineCount = 3;
  return cudaSuccess;
}

API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
  cudaDeviceProp properties;
  if (cudaError_t error = cudaGetDeviceProperties(&properties, number)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; break;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrL2CacheSize: *value = properties.l2CacheSize; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    case cudaDevAttrPciBusId: *value = properties.pciBusID; break;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId: *value = 0; break;
    default: *value = 1;
  }
  return cudaSuccess;
}
API cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int number) {
  snprintf(text, size, "0000:%02X:00.0", device(number).bus);
  return cudaSuccess;
}
API cudaError_t cudaDeviceCanAccessPeer(int* can, int one, int other) {
  *can = one != other;
  return cudaSuccess;
}
API cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return cudaSuccess;
}
API cudaError_t cudaDeviceSynchronize() {
  double moment;
  {
    Lock lock(mutex);
    if (broken()) return failed(cudaErrorECCUncorrectable);
    moment = std::max(all_done(device(current)), node().defaults[current].free_at);
  }
  wait_until(moment);
  return cudaSuccess;
}
API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t*, int) { return cudaErrorNotSupported; }
API cudaError_t cudaProfilerStart() { return cudaSuccess; }
API cudaError_t cudaProfilerStop() { return cudaSuccess; }

API cudaError_t cudaGetLastError() { return std::exchange(last, cudaSuccess); }
API cudaError_t cudaPeekAtLastError() { return last; }
API const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfTheStandIn";
}
API const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorECCUncorrectable: return "uncorrectable ECC error encountered";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    default: return "an error of the stand-in";
  }
}

// -- memory

API cudaError_t cudaMalloc(void** address, size_t size) {
  Lock lock(mutex);
  if (node().devices.empty()) return failed(cudaErrorNoDevice);
  Device& here = device(current);
  size_t taken = static_cast<size_t>(setting("TAKEN_BYTES", 0));
  if (here.used + in_pages(size) + taken > here.total || !(*address = reserve(size)))
    return failed(cudaErrorMemoryAllocation);
  here.used += in_pages(size);
  node().ranges[reinterpret_cast<uintptr_t>(*address)] = Range{size, current};
  return cudaSuccess;
}
API cudaError_t cudaFree(void* address) {
  Lock lock(mutex);
  if (!address) return cudaSuccess;
  auto found = node().ranges.find(reinterpret_cast<uintptr_t>(address));
  if (found == node().ranges.end()) return failed(cudaErrorInvalidValue);
  Device& owner = device(found->second.device);
  wait_until(all_done(owner));
  owner.used -= in_pages(found->second.size);
  munmap(address, (found->second.size + HOST_PAGE - 1) & ~(HOST_PAGE - 1));
  node().ranges.erase(found);
  return cudaSuccess;
}
API cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  Lock lock(mutex);
  *total = device(current).total;
  *available = *total - device(current).used;
  return cudaSuccess;
}
API cudaError_t cudaHostAlloc(void** address, size_t size, unsigned) {
  Lock lock(mutex);
  if (!(*address = reserve(size))) return failed(cudaErrorMemoryAllocation);
  node().ranges[reinterpret_cast<uintptr_t>(*address)] = Range{size, HOST};
  return cudaSuccess;
}
API cudaError_t cudaFreeHost(void* address) {
  Lock lock(mutex);
  auto found = node().ranges.find(reinterpret_cast<uintptr_t>(address));
  if (found == node().ranges.end()) return cudaSuccess;
  munmap(address, (found->second.size + HOST_PAGE - 1) & ~(HOST_PAGE - 1));
  node().ranges.erase(found);
  return cudaSuccess;
}
API cudaError_t cudaHostRegister(void* address, size_t size, unsigned) {
  Lock lock(mutex);
  node().ranges[reinterpret_cast<uintptr_t>(address)] = Range{size, HOST};
  return cudaSuccess;
}
API cudaError_t cudaHostUnregister(void* address) {
  Lock lock(mutex);
  node().ranges.erase(reinterpret_cast<uintptr_t>(address));
  return cudaSuccess;
}
API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* address) {
  Lock lock(mutex);
  int place = node().place_of(address);
  memset(found, 0, sizeof *found);
  found->type = place == PAGEABLE ? cudaMemoryTypeUnregistered : place == HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  found->device = std::max(place, 0);
  found->devicePointer = found->hostPointer = const_cast<void*>(address);
  return cudaSuccess;
}

// -- copies

API cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t size, cudaMemcpyKind, cudaStream_t stream) {
  Lock lock(mutex);
  return copy(target, source, size, stream_of(stream));
}
API cudaError_t cudaMemcpyPeerAsync(void* target, int, const void* source, int, size_t size, cudaStream_t stream) {
  Lock lock(mutex);
  return copy(target, source, size, stream_of(stream));
}
API cudaError_t cudaMemcpy(void* target, const void* source, size_t size, cudaMemcpyKind) {
  Lock lock(mutex);
  copy(target, source, size, stream_of(nullptr));
  wait_until(stream_of(nullptr).free_at);
  return cudaSuccess;
}
API cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source, size_t source_pitch,
                                  size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  Lock lock(mutex);
  for (size_t row = 0; row < height; row++)
    memcpy(static_cast<char*>(target) + row * target_pitch, static_cast<const char*>(source) + row * source_pitch, width);
  queue(stream_of(stream), KERNELS, LATENCY);
  return cudaSuccess;
}
API cudaError_t cudaMemsetAsync(void* target, int value, size_t size, cudaStream_t stream) {
  Lock lock(mutex);
  queue(stream_of(stream), KERNELS, size / node().memory + LATENCY);
  if (computed(size)) memset(target, value, size);
  return cudaSuccess;
}
API cudaError_t cudaMemset(void* target, int value, size_t size) { return cudaMemsetAsync(target, value, size, nullptr); }

// -- streams

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  *stream = reinterpret_cast<cudaStream_t>(new Stream{current, 0, priority});
  return cudaSuccess;
}
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
API cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
API cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }  // torch keeps its streams until it ends
API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = stream_of(stream).priority;
  return cudaSuccess;
}
API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  double moment;
  {
    Lock lock(mutex);
    if (broken()) return failed(cudaErrorECCUncorrectable);
    moment = stream_of(stream).free_at;
  }
  wait_until(moment);
  return cudaSuccess;
}
API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Lock lock(mutex);
  return stream_of(stream).free_at <= now() ? cudaSuccess : cudaErrorNotReady;
}
API cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  Lock lock(mutex);
  const Event& marked = *reinterpret_cast<Event*>(event);
  Stream& stream = stream_of(handle);
  if (marked.recorded)
    stream.free_at = std::max(stream.free_at, marked.at + (stream.device != marked.device ? HOP : 0));
  return cudaSuccess;
}
API cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
#if CUDART_VERSION < 13000
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long* id,
                                         cudaGraph_t*, const cudaGraphNode_t**, size_t*) {
#else
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long* id,
                                         cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
#endif
  *status = cudaStreamCaptureStatusNone;
  if (id) *id = 0;
  return cudaSuccess;
}
API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
API cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* argument) {
  function(argument);
  return cudaSuccess;
}

// -- events

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = reinterpret_cast<cudaEvent_t>(new Event{current, 0, false, !(flags & cudaEventDisableTiming)});
  return cudaSuccess;
}
API cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  return cudaSuccess;
}
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned) {
  Lock lock(mutex);
  Event& marked = *reinterpret_cast<Event*>(event);
  const Stream& stream = stream_of(handle);
  if (marked.device != stream.device) return failed(cudaErrorInvalidResourceHandle);
  marked.at = std::max(stream.free_at, now());
  marked.recorded = true;
  return cudaSuccess;
}
API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
API cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(mutex);
  return reinterpret_cast<Event*>(event)->at <= now() ? cudaSuccess : cudaErrorNotReady;
}
API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  double moment;
  {
    Lock lock(mutex);
    if (broken()) return failed(cudaErrorECCUncorrectable);
    moment = reinterpret_cast<Event*>(event)->at;
  }
  wait_until(moment);
  return cudaSuccess;
}
API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  Lock lock(mutex);
  const Event &first = *reinterpret_cast<Event*>(start), &second = *reinterpret_cast<Event*>(end);
  if (first.device != second.device || !first.timed || !second.timed) return failed(cudaErrorInvalidResourceHandle);
  if (second.at > now()) return failed(cudaErrorNotReady);
  *milliseconds = static_cast<float>((second.at - first.at) * 1e3);
  return cudaSuccess;
}

// -- the driver's functions that torch looks up by name: none is there, but the two that tell a device

static CUresult driver_device(int* device, int number) {
  *device = number;
  return CUDA_SUCCESS;
}
static CUresult driver_attribute(int* value, int, int) {
  *value = 0;
  return CUDA_SUCCESS;
}
static CUresult driver_nothing() { return CUDA_SUCCESS; }

static cudaError_t entry_point(const char* name, void** found, cudaDriverEntryPointQueryResult* result) {
  std::string wanted = name;
  *found = wanted == "cuDeviceGet"            ? reinterpret_cast<void*>(driver_device)
           : wanted == "cuDeviceGetAttribute" ? reinterpret_cast<void*>(driver_attribute)
                                              : reinterpret_cast<void*>(driver_nothing);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned, unsigned long long,
                                                 cudaDriverEntryPointQueryResult* result) {
  return entry_point(name, found, result);
}
#if CUDART_VERSION < 13000
API cudaError_t cudaGetDriverEntryPoint(const char* name, void** found, unsigned long long,
                                        cudaDriverEntryPointQueryResult* result) {
  return entry_point(name, found, result);
}
#endif
