// The number types of CUDA by their size alone: their true headers need the compiler of CUDA.
#define __CUDA_FP16_H__
#define __CUDA_FP16_HPP__
#define __CUDA_BF16_H__
#define __CUDA_BF16_HPP__
#define __CUDA_FP8_H__
struct __half { unsigned short x; };
struct __nv_bfloat16 { unsigned short x; };
typedef __half half;
