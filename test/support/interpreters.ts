import { aptInstall } from './services/apt.ts'
import { binaryFolders, findBinary } from './services/binary.ts'
import { allowedSources } from './services/source.ts'

/** Debian's package for each. */
const packages = { bash: 'bash', curl: 'curl', python3: 'python3' } as const

/** Programs that the examples in other languages need. */
export type Interpreter = keyof typeof packages

/**
 * The path of a program. Where it is missing and installing is allowed, it is installed first, as the servers of the
 * tests are. Otherwise the test fails with an instruction, because a skipped language would look like a working one.
 */
export async function findInterpreter(name: Interpreter): Promise<string> {
  const find = () => findBinary(name, binaryFolders(process.env))
  const found = find()
  if (found !== undefined) return found
  if (allowedSources(process.env).includes('apt') && (await aptInstall([packages[name]]))) {
    const installed = find()
    if (installed !== undefined) return installed
  }
  throw new Error(`${name} is not here, and the examples need it: install the package "${packages[name]}".`)
}
