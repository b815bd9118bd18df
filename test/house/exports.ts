/** Rooms under src that are nobody's to import: shared parts, the wire, the command line, and what `open` chooses from. */
const innerRooms = ['core', 'lines', 'access', 'audit', 'wire', 'remote', 'cli', 'backends', 'copy', 'demo']
/** Engines that are subpaths of their own; each is a folder in src/backends. */
const engines = ['sqlite', 'postgres', 'mariadb', 'redis']

/**
 * Compares the package's `exports` with the folders that are there, and says what does not agree. `files` are the
 * paths of the source.
 */
export function findWrongExports(
  exports: Readonly<Record<string, unknown>>,
  files: readonly string[],
): readonly string[] {
  const complaints: string[] = []
  const expected = new Map<string, string>([['.', 'index']])
  const rooms = new Set(files.flatMap((path) => /^src\/([^/]+)\//.exec(path)?.[1] ?? []))
  for (const room of rooms) if (!innerRooms.includes(room)) expected.set(`./${room}`, `${room}/index`)
  for (const engine of engines) {
    if (files.includes(`src/backends/${engine}/index.ts`))
      expected.set(`./${engine}`, `backends/${engine}/index`)
  }

  for (const [subpath, file] of expected) {
    if (!files.includes(`src/${file}.ts`))
      complaints.push(`src/${file}.ts is missing: every room has a public face`)
    const entry = exports[subpath]
    // Compared as text, because the order counts: the first condition that fits is taken.
    const wanted = { source: `./src/${file}.ts`, types: `./dist/${file}.d.ts`, default: `./dist/${file}.js` }
    if (entry === undefined) complaints.push(`"${subpath}" is not exported, though src/${file}.ts is public`)
    else if (JSON.stringify(entry) !== JSON.stringify(wanted)) {
      complaints.push(`"${subpath}" must be exactly ${JSON.stringify(wanted)}`)
    }
  }
  for (const subpath of Object.keys(exports)) {
    if (!expected.has(subpath) && subpath !== './package.json')
      complaints.push(`"${subpath}" is exported, but is no room`)
  }
  return complaints
}
