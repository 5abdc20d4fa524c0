// Kernels of torch: they are registered and launched, and take the time that their name and first argument tell.
#include "standin.h"

#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

using namespace standin;

namespace {

constexpr double SHORT = 5e-6;  // seconds of a kernel that nothing is known of

std::unordered_map<const void*, std::string>& names() {
  static std::unordered_map<const void*, std::string> registered;
  return registered;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> pushed;

bool holds(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

// Bytes that an elementwise kernel of torch moves: its first argument is the number of elements, and its mangled name
// has the number of arrays (in the array of their addresses) and the type of the elements.
double moved(const std::string& name, int elements) {
  int size = holds(name, "Id") || holds(name, "Il") ? 8 : holds(name, "bfloat16") || holds(name, "Half") ? 2 : 4;
  int arrays = 2;
  for (int count = 1; count <= 4; count++)
    if (holds(name, ("rrayIPcLi" + std::to_string(count) + "E").c_str()) ||
        holds(name, ("rrayIPcLm" + std::to_string(count) + "E").c_str()))
      arrays = count;
  return static_cast<double>(elements) * size * arrays;
}

double seconds_of(const std::string& name, void** arguments) {
  static const double memory = setting("MEMORY_GBS", 4300) * 1e9, hz = setting("SM_MHZ", 1755) * 1e6;
  if (arguments && holds(name, "spin_kernel")) return *static_cast<int64_t*>(arguments[0]) / hz;
  if (arguments && holds(name, "elementwise_kernel")) return moved(name, *static_cast<int*>(arguments[0])) / memory;
  return SHORT;
}

cudaError_t launch(const void* function, void** arguments, cudaStream_t stream) {
  Lock lock(mutex);
  auto found = names().find(function);
  double seconds = found == names().end() ? SHORT : seconds_of(found->second, arguments);
  queue(stream_of(stream), KERNELS, seconds + launch_seconds() / 3);
  return cudaSuccess;
}

}  // namespace

// -- as the compiler of CUDA has each library register its kernels

API void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}
API char __cudaInitModule(void**) { return 0; }
API void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                                int*) {
  Lock lock(mutex);
  names()[host] = name;
}
API void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  pushed.push_back({grid, block, shared, stream});
  return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (pushed.empty()) return cudaErrorInvalidValue;
  Configuration top = pushed.back();
  pushed.pop_back();
  *grid = top.grid, *block = top.block, *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

API cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void** arguments, size_t, cudaStream_t stream) {
  return launch(function, arguments, stream);
}
API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3, dim3, void** arguments, size_t,
                                            cudaStream_t stream) {
  return launch(function, arguments, stream);
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* function, void** arguments) {
  return launch(function, arguments, how->stream);
}
API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void** arguments, size_t, cudaStream_t stream) {
  return launch(kernel, arguments, stream);
}

API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void*) {
  memset(found, 0, sizeof *found);
  found->maxThreadsPerBlock = 1024, found->numRegs = 32, found->maxDynamicSharedSizeBytes = 49152;
  found->ptxVersion = found->binaryVersion = static_cast<int>(setting("CAPABILITY", 90));
  return cudaSuccess;
}
API cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) { return cudaSuccess; }
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 2;
  return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t,
                                                                       unsigned) {
  *blocks = 2;
  return cudaSuccess;
}
API cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  *address = const_cast<void*>(symbol);
  return cudaSuccess;
}
API cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) { return cudaSuccess; }
