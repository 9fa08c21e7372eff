#pragma once

// Hashes of outputs, and the file that they are recorded in.

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "megamoe/status.hpp"
#include "megamoe/types.hpp"

namespace megamoe::bits {

/// FNV-1a, 64 bits, of the rows' BF16 bits, low byte first.
uint64_t hash_of(std::span<const Bf16> y);
/// "0x0123456789abcdef".
std::string hash_text(uint64_t hash);

/// What was computed where.
struct BitRecord {
  std::string machine;  ///< "NVIDIA H200"
  std::string driver;   ///< "580.159, CUDA 13.0"
  std::string version;  ///< of MegaMoE
  std::string date;     ///< "2026-11-30"
  std::string command;
  std::map<std::string, uint64_t> hashes;  ///< by case: of all ranks' outputs, rank after rank
};

/// Errors: not_found; invalid_file.
Result<BitRecord> read_bit_record(const std::string& path);
/// Replaces the file as a whole or not at all. Errors: invalid_argument.
Status write_bit_record(const std::string& path, const BitRecord& record);

}  // namespace megamoe::bits
