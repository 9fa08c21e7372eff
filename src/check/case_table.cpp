#include "megamoe/megamoe.hpp"
