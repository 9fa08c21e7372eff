#include "formats/temporary_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "host/errors.hpp"

namespace megamoe {

TemporaryFile::~TemporaryFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(name_.c_str());
}

Status TemporaryFile::create() {
  static std::atomic<uint32_t> counter{0};
  name_ = fmt::format("{}.{}.{}.tmp", target_, ::getpid(), counter.fetch_add(1));
  descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  return descriptor_ < 0 ? failure("must be creatable") : Status();
}

Status TemporaryFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t num_written = ::write(descriptor_, bytes.data(), bytes.size());
    if (num_written < 0 && errno == EINTR) continue;
    if (num_written <= 0) return failure("must be writable");
    bytes = bytes.subspan(static_cast<size_t>(num_written));
  }
  return {};
}

Status TemporaryFile::commit() {
  if (::fsync(descriptor_) != 0) return failure("must reach the disk");
  if (::rename(name_.c_str(), target_.c_str()) != 0) return failure("must be replaceable");
  ::close(descriptor_);
  descriptor_ = -1;
  return {};
}

Status TemporaryFile::failure(std::string_view rule) const {
  return invalid_argument(fmt::format("{} {}", target_, rule), std::strerror(errno),
                          "check the folder, its permissions and its free space");
}

}  // namespace megamoe
