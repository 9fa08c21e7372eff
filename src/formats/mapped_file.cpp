#include "formats/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "host/errors.hpp"

namespace megamoe {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int value) : value_(value) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int value() const { return value_; }

 private:
  int value_;
};

Status system_error(StatusCode code, const std::string& path, std::string_view rule) {
  return error(code, fmt::format("{} {}", path, rule), std::strerror(errno), "check the path and its permissions");
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: a named pipe must be refused below, not waited for.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.value() < 0) {
    const bool is_absent = errno == ENOENT || errno == ENOTDIR;
    return system_error(is_absent ? StatusCode::not_found : StatusCode::invalid_file, path, "must be readable");
  }
  struct stat info {};
  if (::fstat(file.value(), &info) != 0) return system_error(StatusCode::invalid_file, path, "must be readable");
  if (!S_ISREG(info.st_mode)) {
    return invalid_file(fmt::format("{} must be a regular file", path), "a folder or a device", "name a file");
  }
  if (info.st_size == 0) {
    return invalid_file(fmt::format("{} must not be empty", path), "0 bytes", "download or write the file again");
  }
  const auto num_bytes = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, num_bytes, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (address == MAP_FAILED) return system_error(StatusCode::invalid_file, path, "must be mappable into memory");
  return MappedFile({static_cast<const std::byte*>(address), num_bytes});
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace megamoe
