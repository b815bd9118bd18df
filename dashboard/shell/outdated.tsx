import type { ReactNode } from 'react'
import { Button } from '../kit/button.tsx'
import { Icon } from '../kit/icon.tsx'
import { useLiveness } from '../live/connection.ts'
import { useLive } from '../live/queries.ts'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { useSignedIn } from './session.ts'

/** A view that could not be loaded asks nothing by itself: this finds the server again. */
const lookMs = { always: 60_000, lost: 5_000 } as const

/** Says that another version is served now than when this page was loaded: its scripts may not fit any more. */
export function OutdatedBanner(): ReactNode {
  const say = useWords(shellWords)
  const { client, me } = useSignedIn()
  const { version } = me.server
  const { lostAt } = useLiveness()
  const everyMs = lostAt === null ? lookMs.always : lookMs.lost
  const { data: now } = useLive(['me'], () => client.overview.me(), { everyMs })
  if (now === undefined || now.server.version === version) return null
  return (
    <div className="banner" role="status">
      <Icon name="warning" />
      <span>{say('outdated', { from: version, to: now.server.version })}</span>
      <Button onPress={() => location.reload()}>{say('reload')}</Button>
    </div>
  )
}
