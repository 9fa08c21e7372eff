#include "check/bits/bit_record.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "check/fnv1a.hpp"
#include "formats/mapped_file.hpp"
#include "formats/strict_json.hpp"
#include "formats/temporary_file.hpp"
#include "host/errors.hpp"

namespace megamoe::bits {
namespace {

constexpr std::string_view kHashKey = "hash";
constexpr std::string_view kHashFunction =
    "FNV-1a, 64 bits, of the BF16 outputs of all ranks, rank after rank, low byte first";
constexpr std::string_view kCasesKey = "cases";
constexpr std::string_view kRemedy = "record it again with `megamoe check --record-bits`";

/// The text fields of a record by their keys.
constexpr std::array<std::pair<std::string_view, std::string BitRecord::*>, 5> kTexts{
    {{"machine", &BitRecord::machine},
     {"driver", &BitRecord::driver},
     {"megamoe", &BitRecord::version},
     {"date", &BitRecord::date},
     {"command", &BitRecord::command}}};

/// Errors: invalid_file.
Result<std::string> text_at(const nlohmann::json& file, std::string_view key, const std::string& path) {
  const auto found = file.find(key);
  if (found != file.end() && found->is_string()) return found->get<std::string>();
  return invalid_file(fmt::format("{}: {} must be text", path, key),
                      found == file.end() ? std::string("nothing") : shown(*found), kRemedy);
}

/// Reads what hash_text() wrote. Errors: invalid_file.
Result<uint64_t> parse_hash(const nlohmann::json& value, const std::string& name, const std::string& path) {
  const std::string text = value.is_string() ? value.get<std::string>() : std::string();
  uint64_t hash = 0;
  const char* end = text.data() + text.size();
  constexpr size_t kTextLength = 18;
  const bool is_hash = text.size() == kTextLength && text.starts_with("0x") &&
                       std::from_chars(text.data() + 2, end, hash, 16).ptr == end;
  if (is_hash) return hash;
  return invalid_file(fmt::format("{}: the hash of {} must be 0x and 16 hexadecimal digits", path, name), shown(value),
                      kRemedy);
}

}  // namespace

uint64_t hash_of(std::span<const Bf16> y) {
  check::Fnv1a hash;
  for (const Bf16 value : y) {
    hash.add(static_cast<uint8_t>(value.bits & 0xFFU));
    hash.add(static_cast<uint8_t>(value.bits >> 8));
  }
  return hash.value();
}

std::string hash_text(uint64_t hash) { return fmt::format("{:#018x}", hash); }

Result<BitRecord> read_bit_record(const std::string& path) {
  const auto mapped = MappedFile::open(path);
  MM_RETURN_IF_ERROR(mapped.status());
  const auto file = parse_strict_json(mapped->text(), path);
  MM_RETURN_IF_ERROR(file.status());
  const auto function = text_at(*file, kHashKey, path);
  MM_RETURN_IF_ERROR(function.status());
  if (*function != kHashFunction) {
    return invalid_file(fmt::format("{}: hashes must be {}", path, kHashFunction), *function, kRemedy);
  }
  BitRecord record;
  for (const auto& [key, member] : kTexts) {
    auto text = text_at(*file, key, path);
    MM_RETURN_IF_ERROR(text.status());
    record.*member = *std::move(text);
  }
  const auto cases = file->find(kCasesKey);
  if (cases == file->end() || !cases->is_object()) {
    return invalid_file(fmt::format("{}: {} must be an object", path, kCasesKey),
                        cases == file->end() ? std::string("nothing") : shown(*cases), kRemedy);
  }
  for (const auto& [name, value] : cases->items()) {
    const auto hash = parse_hash(value, name, path);
    MM_RETURN_IF_ERROR(hash.status());
    record.hashes.emplace(name, *hash);
  }
  return record;
}

Status write_bit_record(const std::string& path, const BitRecord& record) {
  nlohmann::ordered_json file;
  for (const auto& [key, member] : kTexts) file[std::string(key)] = record.*member;
  file[std::string(kHashKey)] = kHashFunction;
  nlohmann::ordered_json cases = nlohmann::ordered_json::object();
  for (const auto& [name, hash] : record.hashes) cases[name] = hash_text(hash);
  file[std::string(kCasesKey)] = std::move(cases);
  const std::string text = file.dump(2) + "\n";

  TemporaryFile target(path);
  MM_RETURN_IF_ERROR(target.create());
  MM_RETURN_IF_ERROR(target.write(std::as_bytes(std::span(text))));
  return target.commit();
}

}  // namespace megamoe::bits
