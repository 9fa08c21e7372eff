// Stands in for mpi_group.cpp where MPI was not found when MegaMoE was built.

#include "host/errors.hpp"
#include "host/group.hpp"

namespace megamoe::internal {

Result<std::shared_ptr<GroupState>> make_mpi_group() {
  return error(StatusCode::unsupported, "an MPI group needs a build with MPI", "a build without",
               "install libopenmpi-dev and configure again, or use Group::threads()");
}

}  // namespace megamoe::internal
