import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Incoming, OutgoingText } from './call.ts'
import { answerHeaders } from './request/problem.ts'

/**
 * The dashboard's files. The first request reads all files into a table, so no part of a request becomes a path on the
 * disk: a file outside the table does not exist.
 *
 * **Which requests get the page**: a GET or HEAD that accepts HTML (`Accept: text/html`, as browsers send for an
 * address), outside of `/v1` and `/assets`, if the API has no such route. `/` is a route too, but clients that accept
 * HTML get the page. So users can bookmark and share `/jobs?search=…`, and programs with a wrong path still get a
 * problem document.
 */
export interface Assets {
  /** Finds the file or the page of a request; undefined for a request to the API. */
  find(
    incoming: Pick<Incoming, 'method' | 'path' | 'header'>,
    hasRoute: () => boolean,
  ): OutgoingText | undefined
}

interface File {
  readonly type: string
  readonly etag: string
  readonly isPage: boolean
  readonly bytes: Uint8Array
  readonly br: Uint8Array | undefined
  readonly gzip: Uint8Array | undefined
}

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

/** The page may load its own scripts and styles and call its own server. It allows no inline code and no `eval`. */
const pagePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

/** Finds the built dashboard: beside the built server, or in `dist` of a checkout. */
function dashboardFolder(): string {
  const built = join(import.meta.dirname, '..', '..', 'dashboard')
  return existsSync(join(built, 'index.html'))
    ? built
    : join(import.meta.dirname, '..', '..', '..', 'dist', 'dashboard')
}

/**
 * `basePath` is the prefix of the page's links. Without one, links are relative to the start of the request's path,
 * because a proxy may have removed a prefix that the browser sees.
 */
export function createAssets(basePath = ''): Assets {
  const folder = dashboardFolder()
  let read: Dashboard | undefined
  const dashboard = () => {
    read ??= readDashboard(folder)
    return read
  }

  return {
    find(incoming, hasRoute) {
      const { method, path } = incoming
      if (method !== 'GET' && method !== 'HEAD') return undefined
      if (path === '/favicon.svg' || path.startsWith('/assets/')) {
        const file = dashboard().files.get(path)
        return file && answer(file, incoming)
      }
      if (path === '/v1' || path.startsWith('/v1/') || !acceptsHtml(incoming.header('accept')))
        return undefined
      if (path !== '/' && hasRoute()) return undefined
      const { page } = dashboard()
      if (page === undefined) return undefined
      return answer(pageOf(page, basePath === '' ? upFrom(path) : `${basePath}/`), incoming)
    },
  }
}

function acceptsHtml(accept: string | undefined): boolean {
  return accept?.includes('text/html') === true
}

function answer(file: File, incoming: Pick<Incoming, 'header'>): OutgoingText {
  return reply(file, incoming.header('accept-encoding') ?? '', incoming.header('if-none-match'))
}

function reply(file: File, encodings: string, known: string | undefined): OutgoingText {
  const headers: Record<string, string> = {
    ...answerHeaders,
    'content-type': file.type,
    etag: file.etag,
    vary: 'accept, accept-encoding',
    // The name of an asset contains a hash of its content. Browsers revalidate the page, which costs a 304.
    'cache-control': file.isPage ? 'no-cache' : 'public, max-age=31536000, immutable',
  }
  if (file.isPage) headers['content-security-policy'] = pagePolicy
  if (known?.split(/\s*,\s*/).includes(file.etag)) return { status: 304, headers, body: '' }
  const [encoding, bytes] = encodedFor(file, encodings)
  if (encoding !== undefined) headers['content-encoding'] = encoding
  return { status: 200, headers, body: bytes }
}

function encodedFor({ br, gzip, bytes }: File, encodings: string): readonly [string | undefined, Uint8Array] {
  const accepted = encodings.split(',').map((one) => one.trim().toLowerCase())
  if (br !== undefined && accepted.includes('br')) return ['br', br]
  if (gzip !== undefined && accepted.includes('gzip')) return ['gzip', gzip]
  return [undefined, bytes]
}

interface Dashboard {
  readonly page: string | undefined
  readonly files: ReadonlyMap<string, File>
}

function readDashboard(folder: string): Dashboard {
  const files = new Map<string, File>()
  if (!existsSync(join(folder, 'index.html'))) return { page: undefined, files }
  for (const name of ['favicon.svg', ...listAssets(folder)]) {
    const path = join(folder, name)
    const type = types[name.slice(name.lastIndexOf('.') + 1)]
    if (type === undefined || !existsSync(path)) continue
    const bytes = readFileSync(path)
    files.set(`/${name}`, {
      ...{ type, bytes, etag: etagOf(bytes), isPage: name === 'favicon.svg' },
      br: readIf(`${path}.br`),
      gzip: readIf(`${path}.gz`),
    })
  }
  return { page: readFileSync(join(folder, 'index.html'), 'utf8'), files }
}

function listAssets(folder: string): readonly string[] {
  return existsSync(join(folder, 'assets'))
    ? readdirSync(join(folder, 'assets')).map((name) => `assets/${name}`)
    : []
}

/** The relative address from a path back to its start. Browsers ignore the part after the last slash. */
function upFrom(path: string): string {
  return '../'.repeat(path.split('/').length - 2) || './'
}

/** Creates the page whose links are relative to this base. */
function pageOf(text: string, address: string): File {
  const base = address.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;')
  const bytes = Buffer.from(text.replace('<base href="/"', () => `<base href="${base}"`))
  return { type: types.html!, etag: etagOf(bytes), isPage: true, bytes, br: undefined, gzip: undefined }
}

function etagOf(bytes: Uint8Array): string {
  return `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
}

function readIf(path: string): Uint8Array | undefined {
  return existsSync(path) ? readFileSync(path) : undefined
}
