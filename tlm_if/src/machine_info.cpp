#include <kb/tlm_if/machine_info.h>

namespace kb {

std::string sip_name(std::uint32_t sip) { return "tray.sip" + std::to_string(sip); }
std::string cube_name(std::uint32_t sip, std::uint32_t cube) { return sip_name(sip) + ".cube" + std::to_string(cube); }
std::string pe_name(const PeId& id) { return cube_name(id.sip, id.cube) + ".pe" + std::to_string(id.pe); }

}  // namespace kb
