import { aptInstall } from './services/apt.ts'
import { binaryFolders, findBinary } from './services/binary.ts'
import { allowedSources } from './services/source.ts'

/** Debian's package for each. */
const packages = { bash: 'bash', curl: 'curl', python3: 'python3' } as const

/** Programs that the examples in other languages need. */
export type Interpreter = keyof typeof packages

/**
 * Where a program is; installed first where that is missing and allowed, as the servers of the tests are. Without it the
 * test fails with a line that says what to do: a language that was left out would look like one that works.
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
