/**
 * What the image starts: the command line. A server in a container is reached from outside of it, so it needs a secret.
 * Where none was given, the first start makes one and keeps it in the working folder, which is the volume with the data;
 * it is never printed.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, linkSync, rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'

const path = resolve('token')

/** Whether the server was told of a secret, or only what it is asked about itself. */
function isTold(args: readonly string[]): boolean {
  const { SIGNALBOX_TOKEN: token, SIGNALBOX_TOKEN_FILE: file } = process.env
  return (
    token !== undefined || file !== undefined || args.some((arg) => /^(--token-file\b|--help$|-h$)/.test(arg))
  )
}

/** In one step, for several containers may share the volume: all of them read what the first one wrote. */
function makeSecret(): boolean {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  try {
    writeFileSync(draft, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600 })
    linkSync(draft, path)
    return true
  } catch {
    // There is one already; or nothing can be written here, and then the server says that it needs a token.
    return false
  } finally {
    rmSync(draft, { force: true })
  }
}

const args = process.argv.slice(2)
if (args[0] === 'serve' && !isTold(args)) {
  const isNew = makeSecret()
  if (existsSync(path)) {
    process.env.SIGNALBOX_TOKEN_FILE = path
    const read = 'docker exec CONTAINER cat'
    process.stderr.write(
      `Token: ${isNew ? 'made, and kept in' : 'the one in'} ${path}. Read it with: ${read} ${path}\n`,
    )
  }
}

await import(new URL('../../dist/cli/main.js', import.meta.url).href)
