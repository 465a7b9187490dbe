// The inside door: what our own adapters use beyond the public surface. Not exported by the package.
export { checkNumber, checkOptionNames } from "./contract/validation.js";
