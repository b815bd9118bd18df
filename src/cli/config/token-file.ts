import { show } from '../../core/options.ts'
import { parseSecretKeys } from '../../core/secret-keys.ts'
import { type NamedFile, readPrivateFile, refuseFile } from './private-file.ts'
import { secretFault } from './value-kinds.ts'

const maxBytes = 65_536

/**
 * The secrets of a token file: one a line; empty lines and those that begin with `#` do not count. Whoever reads the
 * file may do everything, so a file that other users can read is refused rather than trusted. `name` is where its path
 * came from. Nothing of its content is ever in a message.
 */
export function readTokenFile(name: string, path: string): readonly string[] {
  const file = { name, path, holds: 'file of secrets', maxBytes }
  const secrets = readLines(file)
  if (secrets.length === 0)
    throw refuseFile(file, 'which holds no secret. Write one a line, such as `openssl rand -hex 32` prints.')
  for (const [index, secret] of secrets.entries()) {
    const fault = secretFault(secret)
    if (fault !== undefined) throw refuseFile(file, `whose secret ${index + 1} cannot be used: ${fault}.`)
  }
  return secrets
}

/** The keys of a secret key file, under the same rules: one a line, the first one seals. */
export function readSecretKeyFile(name: string, path: string): readonly string[] {
  const file = { name, path, holds: 'file of secrets', maxBytes }
  const keys = readLines(file)
  if (keys.length === 0)
    throw refuseFile(file, 'which holds no key. Write one a line, such as `openssl rand -base64 32` prints.')
  parseSecretKeys(`${name} (${show(path)})`, keys)
  return keys
}

function readLines(file: NamedFile): readonly string[] {
  const lines = readPrivateFile(file).split('\n')
  return lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'))
}
