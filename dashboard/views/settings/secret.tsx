import type { ReactNode } from 'react'
import { Button } from '../../kit/button.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { Code } from '../../kit/text/json.tsx'
import { createStored, type Stored, useStored } from '../../shell/stored.ts'
import { kitWords } from '../../words/kit.ts'
import { useWords } from '../../words/language.tsx'
import { settingsWords } from '../../words/settings.ts'

/**
 * The secret on display. It lives outside of components, because the first token signs the page in again and remounts
 * everything. It stays in memory only, until the dialog closes.
 */
const shown: Stored<string | undefined> = createStored<string | undefined>(undefined)

export function showSecret(secret: string): void {
  shown.set(secret)
}

/** The secret of a new token: once, and until it is closed. */
export function Secret(): ReactNode {
  const say = useWords(settingsWords)
  const sayKit = useWords(kitWords)
  const secret = useStored(shown)
  if (secret === undefined) return null
  const close = () => shown.set(undefined)
  return (
    <Dialog title={say('secret')} onClose={close}>
      <div>
        <div className="dialog-body">
          <p>{say('secretOnce')}</p>
          <Code text={secret} label={say('secret')} />
        </div>
        <div className="dialog-feet">
          <Button look="main" onPress={close}>
            {sayKit('close')}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
