import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { aptInstall } from './services/apt.ts'
import { binaryFolders, findBinary } from './services/binary.ts'

const run = promisify(execFile)

/** A certificate and its key in PEM. */
export interface KeyPair {
  readonly cert: string
  readonly key: string
}

/** A certificate authority: it signs the server's certificate, for this machine, and those of clients. */
export interface Authority extends AsyncDisposable, KeyPair {
  /** For 127.0.0.1 and localhost, valid for two days. */
  server(name?: string): Promise<KeyPair>
  /** The same, but it expired a day ago. */
  expiredServer(name?: string): Promise<KeyPair>
  client(name?: string): Promise<KeyPair>
}

/** Made by OpenSSL while the test runs, so that none ever expires. Debian has it; where it is missing it is installed. */
export async function createAuthority(name = 'Signalbox tests'): Promise<Authority> {
  const openssl = await findOpenssl()
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-certificates-'))
  let count = 0

  async function make(subject: string, extensions: readonly string[], signed: boolean): Promise<KeyPair> {
    const [cert, key] = [join(folder, `${++count}.pem`), join(folder, `${count}.key`)]
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
    const signer = signed ? ['-CA', join(folder, '1.pem'), '-CAkey', join(folder, '1.key')] : []
    const more = extensions.flatMap((extension) => ['-addext', extension])
    const out = ['-keyout', key, '-out', cert]
    await run(openssl, [
      'req',
      '-x509',
      ...curve,
      '-days',
      '2',
      '-subj',
      `/CN=${subject}`,
      ...signer,
      ...more,
      ...out,
    ])
    return { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') }
  }

  /** Signs the key of a certificate again, with an end in the past. */
  async function expired({ cert, key }: KeyPair): Promise<KeyPair> {
    const at = (name: string) => join(folder, `expired.${name}`)
    await Promise.all([writeFile(at('pem'), cert), writeFile(at('key'), key, { mode: 0o600 })])
    await run(openssl, ['x509', '-x509toreq', '-in', at('pem'), '-signkey', at('key'), '-out', at('csr')])
    const signer = ['-CA', join(folder, '1.pem'), '-CAkey', join(folder, '1.key'), '-set_serial', '1']
    await run(openssl, ['x509', '-req', '-in', at('csr'), ...signer, '-days', '-1', '-out', at('pem')])
    return { cert: await readFile(at('pem'), 'utf8'), key }
  }

  const own = await make(name, ['keyUsage=critical,keyCertSign'], false)
  const leaf = 'basicConstraints=critical,CA:FALSE'
  const ofServer = [leaf, 'subjectAltName=IP:127.0.0.1,DNS:localhost', 'extendedKeyUsage=serverAuth']
  return {
    ...own,
    server: (subject = 'server') => make(subject, ofServer, true),
    expiredServer: (subject = 'expired') => make(subject, ofServer, true).then(expired),
    client: (subject = 'client') => make(subject, [leaf, 'extendedKeyUsage=clientAuth'], true),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

async function findOpenssl(): Promise<string> {
  const folders = binaryFolders(process.env)
  const found = findBinary('openssl', folders)
  if (found !== undefined) return found
  if (process.env.SIGNALBOX_TEST_APT !== '0') await aptInstall(['openssl'])
  const installed = findBinary('openssl', folders)
  if (installed === undefined) throw new Error('These tests need openssl: install the package "openssl".')
  return installed
}
