// Takes ids from any of three nodes over HTTP. docs/languages.md says what it does, and what to mind.
using System.Globalization;
using System.Net;
using System.Text.Json;

public static class Ids
{
    static readonly string[] Nodes = { "http://localhost:8081", "http://localhost:8082", "http://localhost:8083" };
    static readonly HttpClient Client = new(new SocketsHttpHandler
    {
        ConnectTimeout = TimeSpan.FromSeconds(1),
        PooledConnectionIdleTimeout = TimeSpan.FromMinutes(1),
    })
    { Timeout = TimeSpan.FromSeconds(2.5) };
    static volatile int preferred;

    public static async Task<long[]> Next(string tag, int count = 1)
    {
        string[] texts = await NextTexts(tag, count);
        return texts.Select(text => long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long id)
            ? id
            : throw new FormatException($"ids of {tag} are texts, such as {text}: use NextTexts")).ToArray();
    }

    public static async Task<string[]> NextTexts(string tag, int count = 1)
    {
        Exception? failure = null;
        for (int attempt = 0; attempt < 2 * Nodes.Length; attempt++)
        {
            int at = preferred;
            try
            {
                using var answer = await Client.GetAsync($"{Nodes[at]}/v1/segment/{Uri.EscapeDataString(tag)}?count={count}");
                string body = await answer.Content.ReadAsStringAsync();
                if (answer.IsSuccessStatusCode)
                {
                    using var json = JsonDocument.Parse(body);
                    return json.RootElement.GetProperty("ids").EnumerateArray().Select(id => id.GetString()!).ToArray();
                }
                failure = new HttpRequestException(body, null, answer.StatusCode);
                if ((int)answer.StatusCode < 500 && answer.StatusCode != HttpStatusCode.TooManyRequests) break;
            }
            catch (Exception error) when (error is HttpRequestException or TaskCanceledException or JsonException)
            {
                failure = error;
            }
            preferred = (at + 1) % Nodes.Length;
            await Task.Delay(50 * attempt);
        }
        throw failure!;
    }
}
