#include "megamoe/checkpoint.hpp"
