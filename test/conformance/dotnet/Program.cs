using System.Globalization;
using System.Reflection;
using System.Text;
using System.Text.Json.Nodes;
using System.Threading.RateLimiting;

namespace Conformance;

static class Program
{
    /// <summary>
    /// Recorder FIRST COUNT: one line of JSON for each seed, and first one that says what was recorded.
    /// Recorder script: the same for each line of the input, which says what to do.
    /// </summary>
    static int Main(string[] args)
    {
        Worker.Check();
        var version = typeof(RateLimiter).Assembly.GetCustomAttribute<AssemblyInformationalVersionAttribute>()!.InformationalVersion.Split('+')[0];
        using var output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false)) { NewLine = "\n" };
        if (args is ["script"])
        {
            while (Console.ReadLine() is { } line) output.WriteLine(Trace.RecordScript(JsonNode.Parse(line)!.AsObject()));
            return 0;
        }
        var first = int.Parse(args[0], CultureInfo.InvariantCulture);
        var count = int.Parse(args[1], CultureInfo.InvariantCulture);
        output.WriteLine($"{{\"library\":\"System.Threading.RateLimiting\",\"version\":\"{version}\",\"first\":{first},\"count\":{count}}}");
        for (var seed = first; seed < first + count; seed++) output.WriteLine(new Trace(seed).Record());
        return 0;
    }
}
