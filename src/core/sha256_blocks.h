#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

// The compression function of SHA-256 (FIPS 180-4 §6.2.2), over whole blocks of 64 bytes.
namespace podaq::sha256_detail {

using State = std::array<std::uint32_t, 8>;

// By the CPU's own instructions where it has them, else as `absorb_portably`: the result is the same.
void absorb_blocks(State& state, std::span<const std::byte> blocks);

// In plain C++, on any CPU.
void absorb_portably(State& state, std::span<const std::byte> blocks);

}  // namespace podaq::sha256_detail
