#include "megamoe/router.hpp"
