/**
 * The source of a server. The first source that has one wins:
 *
 *   environment   its URL is set
 *   installed     its binaries are on PATH or where Debian puts them
 *   embedded      its binaries came with npm (Postgres alone)
 *   apt           root may install it (not Postgres: Debian's package starts a service that would stay)
 *
 * When no source has one, one line says what to set or install.
 */
export const sources = ['environment', 'installed', 'embedded', 'apt'] as const

export type Source = (typeof sources)[number]

/** How to look in each source; nothing is looked up, or installed, before its turn. */
export interface Places<Found> {
  readonly environment: () => Found | undefined
  readonly installed: () => Found | undefined
  readonly embedded?: () => Found | undefined
  readonly apt?: () => Promise<Found | undefined>
  /** Advice for the case that no source has one. */
  readonly otherwise: string
}

/** Looks through the `allowed` sources in order, and returns the one that had the server. */
export async function findSource<Found>(
  places: Places<Found>,
  allowed: readonly Source[],
): Promise<{ from: Source; found: Found }> {
  for (const from of sources) {
    if (!allowed.includes(from)) continue
    const found = await places[from]?.()
    if (found !== undefined) return { from, found }
  }
  throw new Error(places.otherwise)
}

/**
 * The sources that may be searched: all of them, or those named by SIGNALBOX_TEST_SOURCES (`embedded,apt`), which is
 * how each is tried on a machine that has several. SIGNALBOX_TEST_APT=0 forbids installing.
 */
export function allowedSources(env: NodeJS.ProcessEnv): readonly Source[] {
  const named = env.SIGNALBOX_TEST_SOURCES?.split(',').map((name) => name.trim())
  const unknown = named?.find((name) => !sources.includes(name as Source))
  if (unknown !== undefined) {
    throw new Error(`SIGNALBOX_TEST_SOURCES names "${unknown}"; it takes ${sources.join(', ')}`)
  }
  return sources.filter(
    (source) => (named?.includes(source) ?? true) && !(source === 'apt' && env.SIGNALBOX_TEST_APT === '0'),
  )
}
