#pragma once

// The networks that benchmarks share, on codes, with random weights.

#include <cstdint>
#include <vector>

#include "runtime/synthetic_network.h"

namespace podaq::benchmarks {

using runtime_detail::NetworkBuilder;
using runtime_detail::prune;

/// 2x1024 I/Q samples, seven convolutions of 64 channels, each pooled.
inline Graph vgg10_1d() {
  NetworkBuilder net({2, 1024});
  for (int block = 0; block < 7; ++block) {
    net.conv(64, 3);
    net.max_pool();
  }
  net.flatten();
  net.linear(128);
  net.linear(128);
  net.linear(24, true);
  return net.finish();
}

/// Six stacks of a 1x1 convolution, two residual units and a pooling, 32 channels.
inline Graph resnet_1d() {
  NetworkBuilder net({2, 1024});
  for (int stack = 0; stack < 6; ++stack) {
    net.conv(32, 1, false);
    for (int unit = 0; unit < 2; ++unit) {
      const ValueId skipped = net.last;
      net.conv(32, 3);
      net.conv(32, 3, true, skipped);
    }
    net.max_pool();
  }
  net.flatten();
  net.linear(128);
  net.linear(128);
  net.linear(24, true);
  return net.finish();
}

inline Graph cnn_a(std::int64_t channels, std::int64_t size) {
  NetworkBuilder net({channels, size, size});
  for (const std::int64_t width : {32, 64, 128}) {
    net.conv(width, 3);
    net.conv(width, 3);
    net.max_pool();
  }
  net.flatten();
  net.linear(1024);
  net.linear(10, true);
  return net.finish();
}

/// VGG16 for 32x32 images, with two hidden linear layers of 4096.
inline Graph vgg16() {
  NetworkBuilder net({3, 32, 32});
  for (const std::vector<std::int64_t>& block : std::vector<std::vector<std::int64_t>>{
           {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}}) {
    for (const std::int64_t width : block) net.conv(width, 3);
    net.max_pool();
  }
  net.flatten();
  net.linear(4096);
  net.linear(4096);
  net.linear(10, true);
  return net.finish();
}

struct NamedNetwork {
  const char* name;
  Graph (*build)();
};

inline std::vector<NamedNetwork> networks() {
  return {{"vgg10_1d", vgg10_1d},
          {"resnet_1d", resnet_1d},
          {"cnn_a_28", [] { return cnn_a(1, 28); }},
          {"cnn_a_32", [] { return cnn_a(3, 32); }},
          {"vgg16", vgg16}};
}

}  // namespace podaq::benchmarks
