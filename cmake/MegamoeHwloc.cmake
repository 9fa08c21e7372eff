# MM_HAVE_HWLOC, MM_HWLOC_INCLUDE and MM_HWLOC_LIBRARY: hwloc 2, if it is wanted, found and can be linked. (A program linked
# with -static cannot have it: Debian's archive lacks what it needs in turn.)
set(MM_HAVE_HWLOC OFF)
if(MM_WITH_HWLOC)
  find_path(MM_HWLOC_INCLUDE hwloc.h)
  find_library(MM_HWLOC_LIBRARY hwloc)
  mark_as_advanced(MM_HWLOC_INCLUDE MM_HWLOC_LIBRARY)
  if(MM_HWLOC_INCLUDE AND MM_HWLOC_LIBRARY)
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_INCLUDES ${MM_HWLOC_INCLUDE})
    set(CMAKE_REQUIRED_LIBRARIES ${MM_HWLOC_LIBRARY})
    check_cxx_source_compiles("
      #include <hwloc.h>
      #if HWLOC_API_VERSION < 0x00020000
      #error hwloc 1 has no memory objects
      #endif
      int main() { return hwloc_get_api_version() == 0; }" MM_HWLOC_LINKS)
    unset(CMAKE_REQUIRED_INCLUDES)
    unset(CMAKE_REQUIRED_LIBRARIES)
    set(MM_HAVE_HWLOC ${MM_HWLOC_LINKS})
  endif()
  if(NOT MM_HAVE_HWLOC)
    message(STATUS "hwloc 2 was not found or cannot be linked: NUMA nodes and cores will not be seen")
  endif()
endif()
